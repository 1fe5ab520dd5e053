package stage_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier/tiertest"
	"github.com/echomq/pipeline/topology/stage"
)

// TestProjection: a state is folded as it is declared, and goes on after a restart; what cannot be folded is in the dead letters (B81).
func TestProjection(t *testing.T) {
	t.Parallel()
	b := newBench(t, tiertest.Shared(t, tiertest.Valkey))
	b.append("in",
		event("ann", `{"n":9007199254740993}`), event("bob", `{"n":1}`), event("ann", `{"n":2,"x":[1.50]}`), event("", `{"n":3}`),
		codec.Message{Type: stage.WatermarkType}, event("bob", `{"n":"x"}`), event("cid", `{"n":0}`), event("cid", `{"n":5,"left":true}`),
	)
	run := func(name string, cfg stage.Projection) (states map[string]string, err error) {
		cfg.From = b.address("in")
		p, err := stage.NewProjection(b.client, name, cfg, stage.Options{})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- p.Run(ctx)
			close(ended)
		}()
		tiertest.Eventually(t, patience, func() (bool, string) {
			list, _ := projection.List(t.Context(), b.client, cfg.From)
			for _, v := range list {
				if v.Name == cfg.Cursor(name) && v.Lag == 0 {
					return true, ""
				}
			}
			return len(ended) > 0, "it folds"
		})
		cancel()
		err = <-ended
		states = map[string]string{}
		all, err2 := b.client.StateAll(t.Context(), b.scope, cfg.Cursor(name))
		require.NoError(t, err2)
		for key, state := range all {
			if key != "" {
				states[key] = state
			}
		}
		return states, err
	}
	latest, err := run("latest", stage.Projection{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"ann": `{"n":2,"x":[1.5]}`, "bob": `{"n":"x"}`, "cid": `{"left":true,"n":5}`}, latest)

	sums := stage.Projection{Key: "key + 's'", State: "data.left == true ? nil : {sum: (state?.sum ?? 0) + data.n}"}
	got, err := run("sums", sums)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"anns": `{"sum":9007199254740995}`, "bobs": `{"sum":1}`, "s": `{"sum":3}`}, got)
	require.Len(t, b.letters("in", "sums.1"), 1)
	require.Contains(t, b.letters("in", "sums.1")[0], `stage: state: "data.left`)

	b.append("in", event("bob", `{"n":10}`))
	got, err = run("sums", sums)
	require.NoError(t, err)
	require.JSONEq(t, `{"sum":11}`, got["bobs"])

	sums.State = "(state ?? 0) + 1"
	b.append("in", event("bob", `{"n":10}`)) // or it might end before it has looked
	_, err = run("sums", sums)
	require.ErrorAs(t, err, new(*projection.SchemaError))
	sums.Version = 2
	got, err = run("sums", sums)
	require.NoError(t, err)
	require.Equal(t, "4", got["bobs"])

	view, err := projection.NewView(b.client, b.scope, "sums", codec.JSON[json.RawMessage]())
	require.NoError(t, err)
	state, ok, err := view.Get(t.Context(), "bobs")
	require.NoError(t, err)
	require.True(t, ok)
	require.JSONEq(t, `{"sum":11}`, string(state), "the first version is the one that readers use")
}

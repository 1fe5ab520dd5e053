package stage_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier/tiertest"
	"github.com/echomq/pipeline/topology/stage"
)

// TestJoin: a message is given what a state has under its key when it is handled, and what becomes of one whose key it lacks is
// declared (B89).
func TestJoin(t *testing.T) {
	t.Parallel()
	b := newBench(t, tiertest.Shared(t, tiertest.Valkey))
	b.append("facts", event("ann", `{"city":"Ulm","n":7}`))
	latest := func(name string, c codec.Codec[map[string]any]) {
		table, err := projection.NewTable(b.client, projection.TableConfig[map[string]any]{
			Config: projection.Config{Address: b.address("facts"), Name: name}, Codec: c,
			Fold: func(_ map[string]any, d *consumer.Delivery) (fact map[string]any, err error) {
				return fact, json.Unmarshal(d.Data, &fact)
			},
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- table.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			require.NoError(t, <-ended)
		})
		b.settled("facts", name+".1")
	}
	latest("text", codec.JSON[map[string]any]())
	latest("packed", nil)
	b.append("in", event("ann", `{"total":5}`), event("bob", `{"total":6}`), event("", `{"who":"ann"}`))
	for _, tt := range []struct {
		name string
		join stage.Join
		want []string
		dead []string
	}{
		{"pass", stage.Join{State: "text.1"}, []string{
			`ann {"data":{"total":5},"joined":{"city":"Ulm","n":7}}`, `bob {"data":{"total":6},"joined":null}`, ` {"data":{"who":"ann"},"joined":null}`,
		}, nil},
		{"drop", stage.Join{State: "packed.1", Missing: "drop", Data: "{city: joined.city, twice: data.total * 2}"}, []string{`ann {"city":"Ulm","twice":10}`}, nil},
		{"dead", stage.Join{State: "packed.1", Missing: "dead", Key: "data.who ?? key", Data: "joined.n"}, []string{"ann 7", " 7"}, []string{`stage: the state packed.1 has no field "bob"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b.run(tt.name, stage.Config{From: b.address("in"), To: b.address(tt.name), Join: &tt.join}, stage.Options{})
			b.settled("in", tt.name)
			require.Equal(t, tt.want, data(b.all(tt.name)))
			require.Equal(t, tt.dead, b.letters("in", tt.name))
		})
	}
	b.append("facts", event("bob", `{"city":"Bonn"}`))
	b.settled("facts", "text.1")
	b.append("in", event("bob", `{"total":1}`))
	b.settled("in", "pass")
	require.Equal(t, `bob {"data":{"total":1},"joined":{"city":"Bonn"}}`, data(b.all("pass"))[3])
}

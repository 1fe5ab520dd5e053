package stage_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
	"github.com/echomq/pipeline/topology/stage"
)

// TestWebhook: a server that is slow, refuses, answers without end or lies loses nothing: what it says later counts, and what it
// will never take stands in the dead letters (B110).
func TestWebhook(t *testing.T) {
	t.Parallel()
	b := newBench(t, tiertest.Shared(t, tiertest.Valkey))
	var mu sync.Mutex
	tries := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		kind := strings.Trim(string(body), `"`)
		mu.Lock()
		tries[kind]++
		try := tries[kind]
		mu.Unlock()
		parts := strings.FieldsFunc(r.Header.Get("Webhook-Signature"), func(r rune) bool { return r == '=' || r == ',' })
		if len(parts) != 4 || stage.Sign("secret", parts[1], r.Header.Get("Webhook-Id"), body) != parts[3] {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		switch {
		case kind == "never":
			w.WriteHeader(http.StatusGone)
		case kind == "elsewhere":
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		case kind == "endless":
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		case kind == "lies", kind == "short" && try == 1: // less than it says
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("x"))
		case try > 1:
			_, _ = fmt.Fprintf(w, "took %s", kind)
		case kind == "slow":
			<-r.Context().Done()
		case kind == "busy":
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(server.Close)
	for _, kind := range []string{"slow", "busy", "short", "broken", "never", "elsewhere", "endless", "lies"} {
		b.append("in", event(kind, `"`+kind+`"`))
	}
	log := &logged{}
	b.run("hook", stage.Config{
		From: b.address("in"), To: b.address("out"), Backoff: duration(time.Millisecond), Attempts: 3,
		Webhook: &stage.Webhook{URL: server.URL + "/t0ken?key=s3cr3t", Secret: "secret", Timeout: duration(time.Second), MaxAnswer: 1000},
	}, stage.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	tiertest.Eventually(t, patience, func() (bool, string) {
		got, dead := data(b.all("out")), b.letters("in", "hook")
		return len(got) == 4 && len(dead) == 4, fmt.Sprint(got, dead)
	})
	require.ElementsMatch(t, []string{"slow took slow", "busy took busy", "short took short", "broken took broken"}, data(b.all("out")))
	dead := strings.Join(b.letters("in", "hook"), "\n")
	require.Contains(t, dead, "answered 410")
	require.Contains(t, dead, "answered 302")
	require.Contains(t, dead, "attempt 3 of 3: stage: webhook "+server.URL+": its answer: unexpected EOF")
	require.Contains(t, dead, "answered more than 1000 bytes")
	require.Contains(t, log.String(), "webhook "+server.URL, "what is tried again is told")
	for _, secret := range []string{"t0ken", "s3cr3t"} { // what may write to a channel of a chat, as a rule
		require.NotContains(t, dead, secret)
		require.NotContains(t, log.String(), secret)
	}
}

// TestRetryAfter: a server says when it is to be asked again, within reason.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	after := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", after)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	for text, want := range map[string]time.Duration{"7": 7 * time.Second, "7200": time.Hour, "999999999999": time.Hour} {
		after = text
		verdict, pause := consumer.VerdictOf(stage.Ask(t.Context(), stage.Webhook{URL: server.URL}, &consumer.Delivery{}))
		require.Equal(t, consumer.VerdictRetryAfter, verdict, text)
		require.Equal(t, want, pause, text)
	}
	for _, text := range []string{"", "-1", "soon"} { // as any other failure
		after = text
		verdict, _ := consumer.VerdictOf(stage.Ask(t.Context(), stage.Webhook{URL: server.URL}, &consumer.Delivery{}))
		require.Equal(t, consumer.VerdictRetry, verdict, text)
	}
}

func TestFuncsAndJobs(t *testing.T) {
	t.Parallel()
	b := newBench(t, tiertest.Shared(t, tiertest.Valkey))
	b.append("in", event("ann", `{"n": 1}`), event("bob", `{"n": 2}`), codec.Message{Type: stage.WatermarkType})
	_, err := stage.New(b.client, "f", stage.Config{From: b.address("in"), Func: "count"}, stage.Options{})
	require.ErrorIs(t, err, stage.ErrNoFunc)
	b.run("f", stage.Config{From: b.address("in"), To: b.address("out"), Func: "count"}, stage.Options{Funcs: map[string]stage.Func{
		"count": func(_ context.Context, d *consumer.Delivery) error {
			d.Emit(tier.HashIncrement("seen", d.Key, 1))
			return nil
		},
	}})
	jobs := stage.Config{From: b.address("in"), Job: &stage.Job{Queue: tiertest.AuditedScope(t, b.server), Type: "'mail'", Data: "data.n"}}
	stop := b.run("mail", jobs, stage.Options{})
	b.settled("in", "f")
	b.settled("in", "mail")
	stop()
	fields, err := b.client.StateFields(t.Context(), b.scope, "seen", "ann", "bob")
	require.NoError(t, err)
	require.Equal(t, []tier.Field{{Value: "1", OK: true}, {Value: "1", OK: true}}, fields)
	require.Len(t, b.all("out"), 1, "the watermark")
	q, err := queue.NewClient(b.client, queue.Config{Queue: jobs.Job.Queue})
	require.NoError(t, err)
	counts, err := q.Counts(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, counts.Ready, "%+v", counts)
}

package projection_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// aheadCase is what becomes of a commit on which the next batch is folded already.
type aheadCase struct {
	name    string
	before  func(s *stage, p *tiertest.Proxy) // while nothing of it is sent
	held    func(r *running)                  // while it waits at the server
	dead    string                            // data of a message that is given up by it
	emitted int                               // how often messages were, in all

	hold string // data of the first message of the batch
	last string // and of the last one of the next
}

// TestFoldsWhileItCommits: a batch is folded while the commit of the one before it waits at the server. Whatever becomes of that
// commit, each message counts once, in order, and what was folded on a batch that is not to be is taken back (B13).
func TestFoldsWhileItCommits(t *testing.T) {
	t.Parallel()
	commits := func(cmd []string) bool {
		return cmd[0] == "EVALSHA" && strings.Contains(strings.Join(cmd, " "), ":state:total ")
	}
	const n = 40
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := tiertest.Private(t, kind)
			proxy := tiertest.NewProxy(t, server)
			for _, c := range []aheadCase{
				{name: "committed", emitted: n},
				{name: "refused", dead: "15", emitted: n - 1},
				{name: "fenced", emitted: n, before: func(s *stage, _ *tiertest.Proxy) { // it waits at the server behind what ends the ownership
					was, fenced := blocked(s.t, server), make(chan error, 1)
					key := s.addr.CursorsKey()
					end := s.client.B().Hincrby().Key(key).Field(tier.CursorField("tallies.1", "epoch")).Increment(1).Build()
					go func() {
						_, err := s.client.Do(context.Background(), key, end)
						fenced <- err
					}()
					s.t.Cleanup(func() { require.NoError(s.t, <-fenced) })
					tiertest.Eventually(s.t, patience, func() (bool, string) { return blocked(s.t, server) > was, "it does not wait yet" })
				}},
				{name: "reply lost", emitted: n, before: func(_ *stage, p *tiertest.Proxy) { p.DropNextReply(commits) }},
				{name: "stopped", emitted: n, held: func(r *running) { r.cancel() }},
				{name: "stopped, refused", dead: "15", emitted: n - 1, held: func(r *running) { r.cancel() }},
				{name: "stopped, reply lost", emitted: n, before: func(_ *stage, p *tiertest.Proxy) { p.DropNextReply(commits) }, held: func(r *running) { r.cancel() }},
			} {
				c.hold, c.last = "11", "30" // the batches behind those of 1 and of 10
				t.Run(c.name, func(t *testing.T) { foldAhead(t, server, proxy, n, c) })
				if c.hold, c.last = "0", "10"; c.dead != "" {
					c.dead = c.hold
				}
				t.Run("first, "+c.name, func(t *testing.T) { foldAhead(t, server, proxy, n, c) })
			}
		})
	}
}

// blocked is how many clients a server has that wait.
func blocked(t testing.TB, server *tiertest.Server) (n int) {
	m := server.Command(t, "INFO", "clients")
	text, err := m.ToString()
	require.NoError(t, err)
	_, after, _ := strings.Cut(text, "blocked_clients:")
	_, err = fmt.Sscan(after, &n)
	require.NoError(t, err)
	return n
}

// idOf is the entry of a message.
func (s *stage) idOf(data string) string {
	reader, err := stream.NewReader(s.client, stream.ReaderConfig{Address: s.addr.String()})
	require.NoError(s.t, err)
	for m, err := range reader.Range(s.t.Context(), codec.EntryID{}, codec.MaxEntryID) {
		require.NoError(s.t, err)
		if string(m.Data) == data {
			return m.Addr.String()
		}
	}
	return ""
}

func foldAhead(t *testing.T, server *tiertest.Server, proxy *tiertest.Proxy, n int, c aheadCase) {
	s := newStage(t, server)
	s.append(0, n, 3, 1)
	total := tier.StateKey(s.addr.Scope, "total")
	s.raw("HSET", total, "text", "x")
	cfg := s.config(1)
	cfg.Batch, cfg.Lease = 10, time.Minute
	began, open, ahead := make(chan struct{}), make(chan struct{}), make(chan struct{})
	folded := map[string]int{}
	cfg.Fold = func(t tally, d *consumer.Delivery) (tally, error) {
		data := string(d.Data)
		folded[data]++
		switch at := data; {
		case folded[data] > 1:
		case at == c.hold:
			close(began)
			<-open
		case at == c.last:
			close(ahead)
		}
		d.Emit(tier.HashIncrement("total", "n", 1))
		if data == c.dead {
			d.Emit(tier.HashIncrement("total", "text", 1))
		}
		return add(t, d)
	}
	table := func() *running {
		p, err := projection.NewTable(tiertest.Dial(t, proxy), cfg)
		require.NoError(t, err)
		return start(t, p)
	}
	r := table()
	<-began
	since := time.Now()
	if c.hold == "0" { // nothing is committed yet, so the server is told of what is read
		told := s.idOf(c.last)
		tiertest.Eventually(t, patience, func() (bool, string) {
			reach := s.raw("HGETALL", s.addr.CursorsKey())[tier.CursorField("tallies.1", "reach")]
			return reach == told, reach
		})
	} else {
		tiertest.Eventually(t, patience, func() (bool, string) { lag := s.info(1).Lag; return lag == int64(n-11), strconv.Itoa(int(lag)) })
	}
	server.Command(t, "CLIENT", "PAUSE", "60000", "WRITE")
	defer server.Command(t, "CLIENT", "UNPAUSE") // of a test that fails
	if c.before != nil {
		c.before(s, proxy)
	}
	quick := time.Since(since) < time.Second // else what is due is looked for, which waits for the commit
	close(open)
	if c.hold == "0" || quick {
		select {
		case <-ahead:
		case <-time.After(patience / 4):
			require.Fail(t, "nothing is folded while a commit is under way")
		}
	}
	if c.held != nil {
		c.held(r)
	}
	server.Command(t, "CLIENT", "UNPAUSE")
	if c.held != nil {
		require.NoError(t, r.wait())
		r = table()
	}
	tiertest.Eventually(t, patience, func() (bool, string) { i := s.info(1); return i.Lag == 0 && i.Epoch > 0, fmt.Sprint(i.Lag) })
	r.cancel()
	s.append(n, 1, 3, 1) // which ends the read that is under way, and is handed back
	require.NoError(t, r.wait())

	want := map[string]tally{}
	reader, err := stream.NewReader(s.client, stream.ReaderConfig{Address: s.addr.String()})
	require.NoError(t, err)
	for m, err := range reader.Range(t.Context(), codec.EntryID{}, codec.MaxEntryID) {
		require.NoError(t, err)
		if text := string(m.Data); text != c.dead && text != strconv.Itoa(n) {
			want[m.Key], err = add(want[m.Key], &consumer.Delivery{Record: m})
			require.NoError(t, err)
		}
	}
	require.Equal(t, want, s.state(1))
	require.Equal(t, strconv.Itoa(c.emitted), s.raw("HGETALL", total)["n"])
	var dead []string
	for l, err := range stream.DeadLetters(t.Context(), s.client, s.addr.String(), "tallies.1") {
		require.NoError(t, err)
		dead = append(dead, string(l.Record.Data))
	}
	require.Equal(t, c.dead, strings.Join(dead, " "))
}

package stream_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// tabling is an owner that commits many fields of a state with each entry.
type tabling struct {
	*fixture
	owner *stream.Owner
	state string // key
	left  []tier.Leased
	done  int
	had   string // what each field has
}

const (
	tabled  = 40 // fields
	schema  = ""
	version = "7"
)

func newTabling(f *fixture) *tabling {
	f.append(f.writer(stream.WriterConfig{}), 8)
	s := &tabling{fixture: f, owner: f.own(f.cursor("c", stream.Head(), time.Minute)), state: tier.StateKey(f.addr().Scope, "table")}
	s.left = f.owned(s.owner, 8)
	f.do("HSET", s.state, schema, version)
	return s
}

// commit has each field be a text.
func (s *tabling) commit(text string, more ...tier.Output) error {
	e := tier.Ending{Entry: s.left[0].Entry, Deliveries: 1}
	for i := range tabled {
		e.Outputs = append(e.Outputs, tier.HashSet("table", "f"+strconv.Itoa(i), text))
	}
	e.Outputs = append(e.Outputs, more...)
	expected := stream.Expected{State: "table", Field: schema, Value: version}
	err := s.owner.Advance(s.ctx, []codec.EntryID{e.Entry}, []tier.Ending{e}, expected)
	if err == nil {
		s.left, s.had, s.done = s.left[1:], text, s.done+1
	}
	return err
}

func (s *tabling) commits(texts ...string) {
	s.t.Helper()
	for _, text := range texts {
		require.NoError(s.t, s.commit(text))
	}
}

// whole: each field has what was committed last, the checkpoint is there, and every commit counts once.
func (s *tabling) whole() {
	s.t.Helper()
	for i := range tabled {
		require.Equal(s.t, s.had, s.text("HGET", s.state, "f"+strconv.Itoa(i)))
	}
	require.Equal(s.t, strconv.Itoa(s.done), s.row("c", "commit"))
	require.Equal(s.t, strconv.Itoa(s.done), s.row("c", "passed"))
	require.NoError(s.t, stream.Check(s.ctx, s.client, s.addr().Scope))
}

// TestDirectCommit: a commit that only sets fields goes by a transaction, and by the script where what the transaction has seen is not so
// any more. What is not the owner's, or not as it was expected to be, is not written (B16).
func TestDirectCommit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		meanwhile func(s *tabling)
		more      []tier.Output
		err       error
		gone      bool // is the state then
		direct    int  // transactions that are tried
	}{
		"nothing":         {direct: 1},
		"more to write":   {more: []tier.Output{tier.HashIncrement("table", "n", 1)}},
		"another state":   {more: []tier.Output{tier.HashSet("other", "f", "x")}},
		"a foreign write": {meanwhile: func(s *tabling) { s.do("HSET", s.state, "x", "1") }, direct: 1},
		"another cursor":  {meanwhile: func(s *tabling) { s.own(s.cursor("d", stream.Head(), time.Minute)) }, direct: 1},
		"another owner": {
			meanwhile: func(s *tabling) { s.do("HINCRBY", s.addr().CursorsKey(), "c:epoch", "1") }, err: tier.ErrFenced, direct: 1,
		},
		"a server that went back": {
			meanwhile: func(s *tabling) { s.do("HSET", s.addr().CursorsKey(), "c:commit", "1") }, err: tier.ErrFenced, direct: 1,
		},
		"another schema": {meanwhile: func(s *tabling) { s.do("HSET", s.state, schema, "8") }, err: stream.ErrUnexpected, direct: 1},
		"no state":       {meanwhile: func(s *tabling) { s.do("DEL", s.state) }, err: stream.ErrUnexpected, gone: true, direct: 1},
	} {
		for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
			for _, open := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, %s, open %v", name, kind, open), func(t *testing.T) {
					t.Parallel()
					f, proxy := setUpProxied(t, tiertest.Shared(t, kind))
					s := newTabling(f)
					s.commits("a", "b")
					require.Equal(t, 2, proxy.Commands()["EXEC"])
					want := 2 + c.direct
					if !open { // the script has moved on, so that the next one looks anew
						require.NoError(t, s.commit("b", tier.HashIncrement("other", "n", 1)))
						if c.err != nil {
							want = 2
						}
					}
					if c.meanwhile != nil {
						c.meanwhile(s)
					}
					require.ErrorIs(t, s.commit("c", c.more...), c.err)
					require.Equal(t, want, proxy.Commands()["EXEC"])
					switch {
					case c.gone:
						require.Equal(t, "0", s.text("EXISTS", s.state))
					case c.err != nil:
						require.Equal(t, "b", s.text("HGET", s.state, "f0"))
					default:
						s.whole()
					}
				})
			}
		}
	}
}

// TestDirectCommitThroughFaults: whatever is lost of a transaction, each commit happens once, and the next ones after it (B13).
func TestDirectCommitThroughFaults(t *testing.T) {
	t.Parallel()
	server := tiertest.Private(t, tiertest.Valkey)
	for _, command := range []string{"WATCH", "HMGET", "HGET", "MULTI", "HSET", "EXEC"} {
		for lost, inject := range map[string]func(*tiertest.Proxy, int, func([]string) bool){
			"reply": (*tiertest.Proxy).DropReplies, "request": (*tiertest.Proxy).DropRequests,
		} {
			for _, open := range []bool{false, true} {
				t.Run(lost+" of "+command+", open "+strconv.FormatBool(open), func(t *testing.T) {
					t.Parallel()
					f, proxy := setUpProxied(t, server)
					s := newTabling(f)
					if open {
						s.commits("a")
					}
					inject(proxy, 1, func(cmd []string) bool { return cmd[0] == command })
					if err := s.commit("b"); err != nil {
						require.True(t, tier.OutcomeUnknown(err), "%v", err)
						s.commits("b")
					}
					s.commits("c", "d")
					require.Equal(t, 1, proxy.Dropped())
					s.whole()
				})
			}
		}
	}
}

// TestDirectCommitWithoutRights: who may not run transactions commits by the script, and nothing outside of one.
func TestDirectCommitWithoutRights(t *testing.T) {
	t.Parallel()
	server := tiertest.Private(t, tiertest.Valkey)
	for _, right := range []string{"watch", "multi", "exec", "discard"} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			u := tiertest.NewUser(t, []*tiertest.Server{server}, "~*", "+@all", "-"+right)
			s := newTabling(setUpWith(t, server, tiertest.Dial(t, addressed(u.At(server)))))
			s.commits("a")
			s.do("HINCRBY", s.addr().CursorsKey(), "c:epoch", "1")
			require.ErrorIs(t, s.commit("b"), tier.ErrFenced)
			s.do("HINCRBY", s.addr().CursorsKey(), "c:epoch", "-1")
			s.whole()
		})
	}
}

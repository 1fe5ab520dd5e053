package stream_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// furnished is a stream with all that can belong to one: three groups, one of them another program's, one deleted, a
// dead letter of each of two, receipts of a named producer and of another.
func furnished(f *fixture) *stream.Writer {
	f.t.Helper()
	w := f.writer(stream.WriterConfig{Brand: "ORD"})
	f.append(w, 5)
	_, err := f.writer(stream.WriterConfig{Producer: "importer"}).AppendAt(f.ctx, 7, messages(2))
	require.NoError(f.t, err)
	for _, name := range []string{"mailer", "gone"} {
		g := f.group(name, stream.Head(), 0)
		m := f.join(g)
		require.NoError(f.t, m.Commit(f.ctx, lettersOf(heldOf(f.read(m, 3)[:1]), "poison")))
		if name == "gone" {
			require.NoError(f.t, g.Delete(f.ctx))
		}
	}
	f.do("XGROUP", "CREATE", f.log(), "raw: a", "0")
	return w
}

// below are the keys that belong to the stream, beside the log.
func (f *fixture) below() []string {
	f.t.Helper()
	keys, err := f.client.KeysBelow(f.ctx, f.log())
	require.NoError(f.t, err)
	return keys
}

// state is everything that the server holds of the scope.
func (f *fixture) scopeState() string {
	var all strings.Builder
	keys := append(f.below(), f.log(), tier.ScopeKey(f.addr().Scope))
	for _, key := range keys {
		fmt.Fprintf(&all, "%s %q\n", key, f.text("DUMP", key))
	}
	return all.String()
}

// TestRemove: everything that belongs to the stream goes, its neighbours stay, a mark with its brand is left; the plan
// says the same and changes nothing. A writer that is opened anew makes it again, and is answered with no old receipt.
func TestRemove(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		old := furnished(f)
		neighbour := f.at("orders2") // whose name begins as ours does
		next := neighbour.writer(stream.WriterConfig{Brand: "NEX"})
		neighbour.append(next, 2)
		require.NoError(t, neighbour.group("mailer", stream.Head(), 0).Create(f.ctx))
		kept := neighbour.scopeState()

		before := f.scopeState()
		plan, err := stream.PlanRemove(f.ctx, f.client, f.address)
		require.NoError(t, err)
		require.Equal(t, before, f.scopeState())
		gone, err := stream.Remove(f.ctx, f.client, f.address)
		require.NoError(t, err)
		for _, r := range []stream.Removed{plan, gone} {
			require.Equal(t, f.addr(), r.Stream)
			require.EqualValues(t, "ORD", r.Brand)
			require.EqualValues(t, 7, r.Entries)
			require.Positive(t, r.Bytes)
			require.EqualValues(t, 2, r.DeadLetters)
			require.Equal(t, 2, r.Producers)
			require.Len(t, r.Groups, 2)
			require.Equal(t, "mailer", r.Groups[0].Name)
			require.EqualValues(t, 2, r.Groups[0].Pending)
			require.EqualValues(t, 4, r.Groups[0].Lag)
		}
		require.Equal(t, "0", f.text("EXISTS", f.log()))
		require.Empty(t, f.below())
		require.Equal(t, "-ORD", f.text("HGET", tier.ScopeKey(f.addr().Scope), "stream:orders"))
		require.Equal(t, "orders", f.text("HGET", tier.ScopeKey(f.addr().Scope), "brand:ORD"))
		rest := func(state string) string { // the scope's own hash has changed
			log, _, _ := strings.Cut(state, tier.ScopeKey(f.addr().Scope))
			return log
		}
		require.Equal(t, rest(kept), rest(neighbour.scopeState()))

		again, err := stream.Remove(f.ctx, f.client, f.address) // as after a lost reply
		require.NoError(t, err)
		require.Equal(t, stream.Removed{Stream: f.addr(), Brand: "ORD"}, again)
		_, err = old.Append(f.ctx, codec.Message{})
		require.ErrorIs(t, err, stream.ErrStreamRemoved)
		_, err = stream.Purge(f.ctx, f.client, f.address)
		require.ErrorIs(t, err, stream.ErrStreamRemoved)

		ids, err := f.writer(stream.WriterConfig{Producer: "importer"}).AppendAt(f.ctx, 7, messages(2))
		require.NoError(t, err)
		require.EqualValues(t, "ORD", ids[0].Brand())
		require.Equal(t, ids, idsOf(f.all()))
	})
}

// TestRemoveExclusive: an exclusive stream is marked as what it was, and can be made again.
func TestRemoveExclusive(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		write := func() {
			lease, err := f.client.LeaseNode(f.ctx)
			require.NoError(t, err)
			_, err = f.writer(stream.WriterConfig{Brand: "EVT", Exclusive: true, Mint: lease.Mint()}).AppendBatch(f.ctx, messages(2))
			require.NoError(t, err)
			require.NoError(t, lease.Release(f.ctx))
		}
		write()
		gone, err := stream.Remove(f.ctx, f.client, f.address)
		require.NoError(t, err)
		require.EqualValues(t, 2, gone.Entries)
		require.EqualValues(t, "EVT", gone.Brand)
		require.Equal(t, "-EVT exclusive", f.text("HGET", tier.ScopeKey(f.addr().Scope), "stream:orders"))
		write()
		require.Len(t, f.all(), 2)
	})
}

// TestRemoveWhatIsNotThere: an address that nobody has written to is no stream; a log of another program is one.
func TestRemoveWhatIsNotThere(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		for _, call := range []func(context.Context, *tier.Client, string) (stream.Removed, error){
			stream.Remove, stream.PlanRemove, stream.Purge, stream.PlanPurge,
		} {
			_, err := call(f.ctx, f.client, f.address)
			require.ErrorIs(t, err, stream.ErrNoStream)
			_, err = call(f.ctx, f.client, "orders")
			require.ErrorIs(t, err, tier.ErrName)
		}
		require.Equal(t, "0", f.text("EXISTS", tier.ScopeKey(f.addr().Scope)))

		f.do("XADD", f.log(), "*", "payload", "x")
		f.do("XGROUP", "CREATE", f.log(), "raw", "0")
		plan, err := stream.PlanRemove(f.ctx, f.client, f.address)
		require.NoError(t, err)
		require.EqualValues(t, 1, plan.Entries)
		require.Equal(t, "0", f.text("EXISTS", tier.ScopeKey(f.addr().Scope)))
		gone, err := stream.Remove(f.ctx, f.client, f.address)
		require.NoError(t, err)
		require.EqualValues(t, 1, gone.Entries)
		require.Equal(t, "0", f.text("EXISTS", f.log()))
		require.ErrorIs(t, f.group("raw", stream.Head(), 0).Create(f.ctx), stream.ErrStreamRemoved)
	})
}

// meanwhile runs f once, before the first call of a script goes out.
func meanwhile(proxy *tiertest.Proxy, src source, f func()) {
	done := false
	proxy.DropRequests(1, func(cmd []string) bool {
		if runs(src)(cmd) && !done {
			done = true
			f()
		}
		return false
	})
}

// TestChangedMeanwhile: a group that is made between the list and the script is not overlooked: the call looks again, and
// its keys go too, or its place is set.
func TestChangedMeanwhile(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		for name, call := range map[string]func(context.Context, *tier.Client, string) (stream.Removed, error){"remove": stream.Remove, "purge": stream.Purge} {
			t.Run(fmt.Sprint(kind, " ", name), func(t *testing.T) {
				t.Parallel()
				f, proxy := setUpProxied(t, tiertest.Shared(t, kind))
				f.append(f.writer(stream.WriterConfig{}), 3)
				require.NoError(t, f.group("known", stream.Head(), 0).Create(f.ctx))
				other := *f
				other.client = tiertest.Dial(t, f.server)
				meanwhile(proxy, sources(t)[name], func() {
					m := other.join(other.group("late", stream.Head(), 0))
					other.read(m, 2)
				})
				gone, err := call(f.ctx, f.client, f.address)
				require.NoError(t, err)
				require.EqualValues(t, 3, gone.Entries)
				require.Len(t, gone.Groups, 2)
				if name == "remove" {
					require.Empty(t, f.below())
					require.Equal(t, "0", f.text("EXISTS", f.addr().OwnersKey("late")))
					return
				}
				groups, err := stream.Groups(f.ctx, f.client, f.address)
				require.NoError(t, err)
				for _, g := range groups {
					require.Zero(t, g.Pending)
					require.Zero(t, g.Lag)
				}
			})
		}
	}
}

// TestRemoveSweeps: the receipts of a producer that was not there yet when the keys were listed go as well.
func TestRemoveSweeps(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f, proxy := setUpProxied(t, tiertest.Shared(t, kind))
			f.append(f.writer(stream.WriterConfig{}), 3)
			other := *f
			other.client = tiertest.Dial(t, f.server)
			meanwhile(proxy, sources(t)["remove"], func() { other.append(other.writer(stream.WriterConfig{}), 1) })
			gone, err := stream.Remove(f.ctx, f.client, f.address)
			require.NoError(t, err)
			require.EqualValues(t, 4, gone.Entries)
			require.Empty(t, f.below())
		})
	}
}

// TestRemoveSparesWhatIsMadeAgain: receipts of a stream that was made again right after it was removed stay.
func TestRemoveSparesWhatIsMadeAgain(t *testing.T) {
	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	f.append(f.writer(stream.WriterConfig{}), 3)
	other := *f
	other.client = tiertest.Dial(t, f.server)
	f.load(sources(t)["scan"]) // one that is not known there is sent twice
	looks := 0
	proxy.DropRequests(1, func(cmd []string) bool {
		if runs(sources(t)["scan"])(cmd) && cmd[4] == "0" { // the first page
			if looks++; looks == 2 { // the removal is done, and the second look begins
				other.append(other.writer(stream.WriterConfig{}), 1)
			}
		}
		return false
	})
	_, err := stream.Remove(f.ctx, f.client, f.address)
	require.NoError(t, err)
	require.Equal(t, 2, looks)
	require.Equal(t, "1", f.length())
	require.Len(t, f.below(), 1)
}

// TestRemoveEndsReaders (B30): readers at work end with ErrStreamRemoved, one that waits for the first message as well.
func TestRemoveEndsReaders(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		ended := make(chan error, 2)
		for _, n := range []int{0, 3} {
			f := setUp(t, s)
			_, err := f.writer(stream.WriterConfig{}).Declare(f.ctx)
			require.NoError(t, err)
			f.append(f.writer(stream.WriterConfig{}), n)
			atEnd := make(chan struct{})
			go func() {
				seen := 0
				for _, err := range f.reader().Tail(f.ctx, codec.EntryID{}) {
					if err != nil {
						ended <- err
						return
					}
					if seen++; seen == n {
						close(atEnd)
					}
				}
				ended <- errors.New("ended without an error")
			}()
			if n > 0 {
				<-atEnd
			}
			_, err = stream.Remove(f.ctx, f.client, f.address)
			require.NoError(t, err)
		}
		f := setUp(t, s) // in the middle of a walk
		f.append(f.writer(stream.WriterConfig{}), 40)
		seen := 0
		var last error
		for _, err := range f.reader().Range(f.ctx, codec.EntryID{}, codec.MaxEntryID) {
			if seen++; seen == 1 {
				_, err := stream.Remove(f.ctx, f.client, f.address)
				require.NoError(t, err)
			}
			last = err
		}
		require.ErrorIs(t, last, stream.ErrStreamRemoved)
		for range 2 { // together: each has waited for a message meanwhile
			require.ErrorIs(t, <-ended, stream.ErrStreamRemoved)
		}
	})
}

// TestRemoveCuresTheEndOfIDs (B72): a stream that has no ids left is removed, and made again with ids by the clock.
func TestRemoveCuresTheEndOfIDs(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.append(f.writer(stream.WriterConfig{}), 1)
		f.do("XADD", f.log(), "18446744073709551615-1", "payload", "x")
		_, err := f.writer(stream.WriterConfig{}).Append(f.ctx, codec.Message{})
		require.ErrorIs(t, err, stream.ErrIDSpace)
		_, err = stream.Remove(f.ctx, f.client, f.address)
		require.NoError(t, err)
		ids := f.append(f.writer(stream.WriterConfig{}), 1)
		require.Less(t, ids[0].Time().Sub(f.now()).Abs().Hours(), 1.0)
	})
}

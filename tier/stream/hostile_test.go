package stream_test

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// hostileNames are no names: each byte that may not stand in one, and what has done harm elsewhere (B88, B89).
func hostileNames() []string {
	names := []string{
		"", "{x}", "{", "}{", "a{}b", "a:b", "a:dead:b", ":owners", "../a", "a/b", "/", "a/../b", "a\x00b", "*", "?", "[a]", "a b", "\xc3\x28", "é", "a@x",
		strings.Repeat("n", tier.MaxName+1),
	}
	for b := range 256 {
		if c := string([]byte{byte(b)}); tier.CheckName("stream", c) != nil {
			names = append(names, "a"+c+"b")
		}
	}
	return names
}

// TestHostileNames: whatever takes a name refuses what is none, before anything is sent.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	good := f.group("g", stream.Head(), 0)
	// An empty producer, consumer or prefix has a meaning, so those take another bad name for it.
	entries := map[string]func(name string) error{
		"writer, scope": func(n string) error {
			_, err := stream.NewWriter(f.client, stream.WriterConfig{Address: n + "/a"})
			return err
		},
		"writer, stream": func(n string) error {
			_, err := stream.NewWriter(f.client, stream.WriterConfig{Address: "s/" + n})
			return err
		},
		"reader, scope": func(n string) error {
			_, err := stream.NewReader(f.client, stream.ReaderConfig{Address: n + "/a"})
			return err
		},
		"reader, stream": func(n string) error {
			_, err := stream.NewReader(f.client, stream.ReaderConfig{Address: "s/" + n})
			return err
		},
		"group, stream": func(n string) error {
			_, err := stream.NewGroup(f.client, stream.GroupConfig{Address: "s/" + n, Name: "g", Start: stream.Head()})
			return err
		},
		"group": func(n string) error {
			_, err := stream.NewGroup(f.client, stream.GroupConfig{Address: f.address, Name: n, Start: stream.Head()})
			return err
		},
		"groups":        func(n string) error { _, err := stream.Groups(f.ctx, f.client, "s/"+n); return err },
		"group metrics": func(n string) error { _, err := stream.NewGroupMetrics(f.client, "s/"+n); return err },
		"streams":       func(n string) error { _, err := collected(stream.Streams(f.ctx, f.client, n)); return err },
		"check":         func(n string) error { return stream.Check(f.ctx, f.client, n) },
		"dead letters": func(n string) error {
			_, err := collected(stream.DeadLetters(f.ctx, f.client, "s/"+n, "g"))
			return err
		},
		"group of dead letters": func(n string) error {
			_, err := collected(stream.DeadLetters(f.ctx, f.client, f.address, n))
			return err
		},
		"redrive": func(n string) error {
			_, err := stream.Redrive(f.ctx, f.client, f.address, n, make([]codec.EntryID, 1))
			return err
		},
		"drop": func(n string) error {
			_, err := stream.DropLetters(f.ctx, f.client, f.address, n, make([]codec.EntryID, 1))
			return err
		},
		"remove":            func(n string) error { _, err := stream.Remove(f.ctx, f.client, "s/"+n); return err },
		"plan of a removal": func(n string) error { _, err := stream.PlanRemove(f.ctx, f.client, "s/"+n); return err },
		"purge":             func(n string) error { _, err := stream.Purge(f.ctx, f.client, "s/"+n); return err },
		"plan of a purge":   func(n string) error { _, err := stream.PlanPurge(f.ctx, f.client, "s/"+n); return err },
		"partitions":        func(n string) error { return stream.Partition(f.ctx, f.client, n, 2) },
		"their number":      func(n string) error { _, err := stream.Partitions(f.ctx, f.client, n); return err },
		"their change":      func(n string) error { return stream.Repartition(f.ctx, f.client, n, 2, nil) },
		"partitioned writer": func(n string) error {
			_, err := stream.NewPartitionedWriter(f.client, stream.WriterConfig{Address: n + "/orders"})
			return err
		},
		"number of a scope":  func(n string) error { _, err := f.client.ScopeNode(f.ctx, n); return err },
		"stored number":      func(n string) error { _, err := f.client.StoredNode(f.ctx, n); return err },
		"registered number":  func(n string) error { _, err := f.client.RegisteredNode(f.ctx, n); return err },
		"prefix of a member": func(n string) error { _, err := good.Join(f.ctx, cmp.Or(n, "{")); return err },
		"producer": func(n string) error {
			_, err := stream.NewWriter(f.client, stream.WriterConfig{Address: f.address, Producer: cmp.Or(n, "{")})
			return err
		},
		"consumer": func(n string) error {
			_, err := consumer.New(consumer.Group(good), func(context.Context, *consumer.Delivery) error { return nil }, consumer.Config{Name: cmp.Or(n, "{")})
			return err
		},
	}
	before := proxy.Commands()
	for what, try := range entries {
		for _, name := range hostileNames() {
			require.ErrorIs(t, try(name), tier.ErrName, "%s %q", what, name)
		}
	}
	for what, try := range map[string]func(string) error{"streams": entries["streams"], "check": entries["check"], "writer": entries["writer, scope"], "number": entries["number of a scope"]} {
		require.ErrorIs(t, try(tier.ReservedScope), tier.ErrName, what)
	}
	require.Equal(t, before, proxy.Commands())
}

// TestNamesLikeOurOwn (B89): names that look like parts of our keys, and names at their cap, are names like others: what
// is called so does not meet anything else. All of it is on one slot (B88).
func TestNamesLikeOurOwn(t *testing.T) {
	names := []string{"scope", "stream", "emq", "pid", "g", "owners", "dead", "beat", "node", "brand", "version", "nodes", "-", ".", "..", "_", strings.Repeat("n", tier.MaxName)}
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		scope := f.addr().Scope
		for i, name := range names {
			f.address = scope + "/" + name
			w := f.writer(stream.WriterConfig{Producer: names[(i+1)%len(names)]})
			_, err := w.AppendAt(f.ctx, 1, []codec.Message{{Key: name}})
			require.NoError(t, err, name)
			groups := []string{name, "owners", "dead"}
			slices.Sort(groups)
			for _, group := range slices.Compact(groups) {
				m := f.join(f.group(group, stream.Head(), 0))
				leased := f.read(m, 1)
				require.Equal(t, name, leased[0].Records[0].Key)
				if group == "dead" {
					require.NoError(t, m.Commit(f.ctx, lettersOf(heldOf(leased), "r")))
					continue
				}
				acked, err := m.Settle(f.ctx, entriesOf(leased))
				require.NoError(t, err)
				require.Equal(t, 1, acked)
			}
		}
		infos, err := collected(stream.Streams(f.ctx, f.client, scope))
		require.NoError(t, err)
		require.Len(t, infos, len(names))
		for _, info := range infos {
			require.EqualValues(t, 1, info.Length, info.Address)
			groups, err := stream.Groups(f.ctx, f.client, info.Address.String())
			require.NoError(t, err)
			for _, g := range groups {
				require.Zero(t, g.Pending)
				require.Equal(t, g.Name == "dead", g.Dead == 1, "%s %s", info.Address, g.Name)
			}
		}
		f.address = scope + "/orders"
	})
}

// TestBytesOfMessages (B78, B80): every byte value in type, key, header and data, each by itself and in invalid UTF-8,
// comes back through a reader and through a group.
func TestBytesOfMessages(t *testing.T) {
	var want []codec.Message
	for b := range 256 {
		text := string([]byte{byte(b)})
		want = append(want,
			codec.Message{Type: text, Key: text, Headers: codec.Headers{{Key: text, Value: text}}, Data: []byte{byte(b)}},
			codec.Message{Type: "\xff" + text, Key: text + "\x00", Headers: codec.Headers{{Key: "", Value: ""}, {Key: text + text, Value: ""}}, Data: []byte{0, byte(b), 0xc3}})
	}
	same := func(t *testing.T, got []codec.Record) {
		t.Helper()
		require.Len(t, got, len(want))
		for i := range got {
			require.NoError(t, got[i].Err)
			sent, err := codec.AppendMessage(nil, &want[i])
			require.NoError(t, err)
			back, err := codec.AppendMessage(nil, &got[i].Message)
			require.NoError(t, err)
			require.Equal(t, sent, back)
		}
	}
	for _, pack := range []int{1, 100} {
		t.Run(fmt.Sprint("pack ", pack), func(t *testing.T) {
			tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
				f := setUp(t, s)
				_, err := f.writer(stream.WriterConfig{Pack: pack}).AppendBatch(f.ctx, want)
				require.NoError(t, err)
				same(t, f.all())
				var read []codec.Record
				leased, err := f.join(f.group("g", stream.Head(), 0)).Read(f.ctx, len(want), 0)
				require.NoError(t, err)
				for _, l := range leased {
					read = append(read, l.Records...)
				}
				same(t, read)
			})
		})
	}
}

// TestCaps: a message with everything at its cap comes back; one above, in any of them, is refused before the wire.
func TestCaps(t *testing.T) {
	t.Parallel()
	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	w := f.writer(stream.WriterConfig{})
	full := func() codec.Message {
		m := codec.Message{Type: strings.Repeat("t", codec.MaxType), Key: strings.Repeat("k", codec.MaxKey)}
		for i := range codec.MaxHeaders {
			m.Headers = append(m.Headers, codec.Header{Key: fmt.Sprintf("%0*d", codec.MaxHeaderKey, i), Value: strings.Repeat("v", codec.MaxHeaderValue)})
		}
		return m
	}
	_, err := w.Append(f.ctx, full())
	require.NoError(t, err)
	got := f.all()
	require.Len(t, got, 1)
	require.Equal(t, full().Headers, got[0].Headers)
	require.Equal(t, full().Key, got[0].Key)

	before := proxy.Commands()
	for what, over := range map[string]func(m *codec.Message){
		"type":         func(m *codec.Message) { m.Type += "x" },
		"key":          func(m *codec.Message) { m.Key += "x" },
		"headers":      func(m *codec.Message) { m.Headers = append(m.Headers, codec.Header{Key: "one more"}) },
		"header key":   func(m *codec.Message) { m.Headers[5].Key += "x" },
		"header value": func(m *codec.Message) { m.Headers[5].Value += "x" },
	} {
		m := full()
		over(&m)
		_, err := w.Append(f.ctx, m)
		var limit *codec.LimitError
		require.ErrorAs(t, err, &limit, what)
		require.Equal(t, what, limit.What)
	}
	require.Equal(t, before, proxy.Commands())
}

// TestHugeMessage (B77): half a gigabyte is refused by its length alone: nothing is copied, and nothing sent. It is not
// parallel, so that it counts its own allocations only.
func TestHugeMessage(t *testing.T) {
	const size = 512 << 20
	huge, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { require.NoError(t, syscall.Munmap(huge)) }()
	text := unsafe.String(&huge[0], size)

	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	w := f.writer(stream.WriterConfig{MaxMessage: 8 << 20})
	f.run(w)
	named := f.writer(stream.WriterConfig{Producer: "p"})
	commands := proxy.Commands()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, m := range []codec.Message{{Data: huge}, {Key: text}, {Type: text}, {Headers: codec.Headers{{Key: "h", Value: text}}}, {Data: huge, Format: codec.FormatMsgpack}} {
		for what, send := range map[string]func() error{
			"append":  func() error { _, err := w.Append(f.ctx, m); return err },
			"batch":   func() error { _, err := w.AppendBatch(f.ctx, []codec.Message{m}); return err },
			"publish": func() error { return w.Publish(f.ctx, m, nil) },
			"named":   func() error { _, err := named.AppendAt(f.ctx, 1, []codec.Message{m}); return err },
		} {
			var large *stream.TooLargeError
			require.ErrorAs(t, send(), &large, what)
			require.Greater(t, large.Size, size)
		}
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))
	require.Equal(t, commands, proxy.Commands())
}

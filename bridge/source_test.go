package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/bridge"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// ledger is a source with positions: partitions of numbered messages, each given from the first on that was not acked.
type ledger struct {
	partitions map[string][]*message.Message

	mu       sync.Mutex
	acked    map[string]int // how many of each
	forgets  func() bool    // an ack, which does not arrive
	settling int            // how many messages until all who are within end
	ends     []context.CancelFunc
}

const metaPartition, metaOffset = "partition", "offset"

func newLedger(partitions, each int) *ledger {
	l := &ledger{partitions: map[string][]*message.Message{}, acked: map[string]int{}, forgets: func() bool { return false }}
	for p := range partitions {
		name := fmt.Sprint("topic/", p)
		for i := range each {
			m := note(fmt.Sprint(p, " ", i))
			m.UUID = string(m.Payload)
			l.partitions[name] = append(l.partitions[name], with(with(m, metaPartition, name), metaOffset, strconv.Itoa(2*i)))
		}
	}
	return l
}

// offset is the position of a message of a ledger.
func offset(m *message.Message) (string, uint64, error) {
	n, err := strconv.ParseUint(m.Metadata[metaOffset], 10, 64)
	return m.Metadata[metaPartition], n + 1, err
}

func (l *ledger) Close() error { return nil }

// Subscribe gives messages out, up to twenty of a partition before they are acked.
func (l *ledger) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	out := make(chan *message.Message)
	var tasks sync.WaitGroup
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, messages := range l.partitions {
		given := make(chan *message.Message, 20)
		first := l.acked[name]
		tasks.Go(func() { l.settle(ctx, name, first, given) })
		rest := messages[first:]
		tasks.Go(func() {
			for _, m := range rest {
				m = m.Copy()
				select {
				case out <- m:
					given <- m
				case <-ctx.Done():
					close(given)
					return
				}
			}
			close(given)
			<-ctx.Done()
		})
	}
	go func() {
		tasks.Wait()
		close(out)
	}()
	return out, nil
}

// settle notes acks, up to the first message that was not acked, or whose ack was lost. Given are those from a number on.
func (l *ledger) settle(ctx context.Context, name string, number int, given <-chan *message.Message) {
	open := true
	for m := range given {
		number++
		select {
		case <-m.Acked():
		case <-m.Nacked():
			open = false
		case <-ctx.Done():
			select {
			case <-m.Acked():
			default:
				open = false
			}
		}
		l.mu.Lock()
		if open = open && !l.forgets(); open {
			l.acked[name] = max(l.acked[name], number)
		}
		if l.settling--; l.settling <= 0 {
			for _, end := range l.ends {
				end()
			}
			l.ends = nil
		}
		l.mu.Unlock()
	}
}

// within runs a source until n messages were settled.
func (l *ledger) within(t *testing.T, s *bridge.Source, n int) error {
	ctx, end := context.WithTimeout(t.Context(), patience)
	defer end()
	l.mu.Lock()
	l.settling, l.ends = n, append(l.ends, end)
	l.mu.Unlock()
	return s.Run(ctx)
}

func (f fixture) source(t *testing.T, from message.Subscriber, change func(*bridge.SourceConfig)) *bridge.Source {
	t.Helper()
	cfg := bridge.SourceConfig{Topic: "t", Address: f.scope + "/poured"}
	change(&cfg)
	s, err := bridge.NewSource(f.client, from, cfg)
	require.NoError(t, err)
	return s
}

func byOffset(c *bridge.SourceConfig) { c.Name, c.Position = "ledger", offset }

func byUUID(c *bridge.SourceConfig) { c.Window = time.Hour }

// TestSourceByPosition: each message stands in the stream once, those of a partition in order, though the source forgets what was acked,
// processes end anywhere, two work at the same time, replies are lost, and connections cut.
func TestSourceByPosition(t *testing.T) {
	t.Parallel()
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			f := newFixture(t, tiertest.Shared(t, kind))
			proxy := tiertest.NewProxy(t, f.server)
			f.client = tiertest.Dial(t, proxy)
			l := newLedger(3, 300)
			l.forgets = func() bool { return rand.IntN(100) == 0 }
			for run := range 8 {
				proxy.DropReplies(1, func(cmd []string) bool { return strings.HasPrefix(cmd[0], "EVAL") && len(cmd) > 8 })
				var both sync.WaitGroup
				for range 1 + run%2 {
					s := f.source(t, l, byOffset)
					both.Go(func() {
						if err := l.within(t, s, 1+rand.IntN(100)); err != nil {
							t.Error(err)
						}
					})
				}
				both.Wait()
				if run == 4 {
					proxy.Cut()
				}
			}
			require.Positive(t, proxy.Dropped())
			l.forgets = func() bool { return false }
			for left := 1; left > 0; {
				left = 0
				for name, all := range l.partitions {
					left += len(all) - l.acked[name]
				}
				if left > 0 {
					require.NoError(t, l.within(t, f.source(t, l, byOffset), left))
				}
			}
			next := map[string]int{}
			for _, m := range f.all(t, "poured") {
				partition, number, _ := strings.Cut(string(m.Data), " ")
				require.Equal(t, strconv.Itoa(next[partition]), number, partition)
				next[partition]++
			}
			require.Equal(t, map[string]int{"0": 300, "1": 300, "2": 300}, next)
		})
	}
}

// TestSourceByUUID: of a source that gives everything again, to several at once, each message stands in the stream once.
func TestSourceByUUID(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		from := gochannel.NewGoChannel(gochannel.Config{Persistent: true, OutputChannelBuffer: 8}, nil)
		publish(t, from, "t", numbers(200)...)
		ctx, end := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for k := range 4 {
			running.Go(func() {
				s := f.source(t, from, byUUID)
				if k == 0 { // this one ends in the middle
					ctx, end := context.WithTimeout(ctx, 20*time.Millisecond)
					defer end()
					if err := s.Run(ctx); err != nil {
						t.Error(err)
					}
					s = f.source(t, from, byUUID)
				}
				if err := s.Run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		seen := map[string]int{}
		out := subscribe(t, f.subscriber(t, func(c *bridge.SubscriberConfig) { c.MaxInFlight = 8 }), "poured")
		for range 200 {
			seen[acked(t, out, 1)[0]]++
		}
		publish(t, from, "t", "last")
		require.Equal(t, []string{"last"}, acked(t, out, 1))
		end()
		running.Wait()
		require.NoError(t, from.Close())
		require.Len(t, seen, 200)
		require.Len(t, f.all(t, "poured"), 201)
	})
}

// TestSourcePoison: what can never be appended is given to Poison, and nothing else; without one it ends the run, and the source
// keeps it.
func TestSourcePoison(t *testing.T) {
	f := onOne(t)
	limit, large, name := (*codec.LimitError)(nil), (*stream.TooLargeError)(nil), (*tier.NameError)(nil)
	bad := func(change func(m *message.Message)) *message.Message {
		m := newLedger(1, 3).partitions["topic/0"][1]
		change(m)
		return m
	}
	tests := []struct {
		name   string
		m      *message.Message
		config func(*bridge.SourceConfig)
		is     error
		as     any
	}{
		{"no UUID", bad(func(m *message.Message) { m.UUID = "" }), byUUID, bridge.ErrNoUUID, nil},
		{"reserved metadata", bad(func(m *message.Message) { m.Metadata[bridge.MetaUUID] = "u" }), byOffset, bridge.ErrReserved, nil},
		{"too large", bad(func(m *message.Message) { m.Payload = make([]byte, 2<<20) }), byOffset, nil, &large},
		{"too large, by UUID", bad(func(m *message.Message) { m.Payload = make([]byte, 2<<20) }), byUUID, nil, &large},
		{"a long value", bad(func(m *message.Message) { m.Metadata["k"] = strings.Repeat("v", codec.MaxHeaderValue+1) }), byOffset, nil, &limit},
		{"no position", bad(func(m *message.Message) { delete(m.Metadata, metaOffset) }), byOffset, strconv.ErrSyntax, nil},
		{"a position too high", bad(func(m *message.Message) { m.Metadata[metaOffset] = strconv.Itoa(1 << 53) }), byOffset, nil, nil},
		{"a sequence too long", bad(func(m *message.Message) { m.Metadata[metaPartition] = strings.Repeat("x", 129) }), byOffset, nil, &name},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLedger(1, 3)
			l.partitions["topic/0"][1] = tt.m
			config := func(c *bridge.SourceConfig) { tt.config(c); c.Address = fmt.Sprint(f.scope, "/poisoned.", i) }
			err := l.within(t, f.source(t, l, config), 3)
			require.Error(t, err)
			var given []error
			poison := func(_ context.Context, m *message.Message, why error) error {
				require.Equal(t, string(tt.m.Payload), string(m.Payload))
				given = append(given, why)
				return nil
			}
			require.LessOrEqual(t, l.acked["topic/0"], 1)
			require.NoError(t, l.within(t, f.source(t, l, func(c *bridge.SourceConfig) { config(c); c.Poison = poison }), 3-l.acked["topic/0"]))
			require.Equal(t, 3, l.acked["topic/0"])
			for _, err := range append(given, err) {
				if tt.as != nil {
					require.ErrorAs(t, err, tt.as)
				} else if tt.is != nil {
					require.ErrorIs(t, err, tt.is)
				}
			}
			require.Len(t, given, 1)
			all := f.all(t, fmt.Sprint("poisoned.", i))
			require.Len(t, all, 2)
			require.Equal(t, "0 0 0 2", string(all[0].Data)+" "+string(all[1].Data))
		})
	}
	l := newLedger(1, 1)
	l.partitions["topic/0"][0].Metadata[bridge.MetaUUID] = "u"
	full := func(c *bridge.SourceConfig) {
		byOffset(c)
		c.Poison = func(context.Context, *message.Message, error) error { return io.ErrShortWrite }
	}
	require.ErrorIs(t, l.within(t, f.source(t, l, full), 1), io.ErrShortWrite)
	require.Zero(t, l.acked["topic/0"])
}

// TestSourceWithoutOrder: a source whose positions do not ascend, or whose sequences are not told apart, is found out.
func TestSourceWithoutOrder(t *testing.T) {
	f := onOne(t)
	mixed := func(c *bridge.SourceConfig) {
		c.Name, c.Position = "mixed", func(m *message.Message) (string, uint64, error) {
			_, n, err := offset(m)
			return "", n, err
		}
	}
	l := newLedger(2, 100)
	for _, m := range l.partitions["topic/1"] {
		n, _ := strconv.Atoi(m.Metadata[metaOffset])
		m.Metadata[metaOffset] = strconv.Itoa(n + 1)
	}
	require.ErrorIs(t, l.within(t, f.source(t, l, mixed), 1<<30), bridge.ErrDisordered)
}

// TestSourceEnds: with its context, which is no error; when the channel is closed; and with what waiting does not mend. What was taken and
// is not in the stream is nacked, and neither the subscriber nor the client is closed.
func TestSourceEnds(t *testing.T) {
	f := onOne(t)
	l := newLedger(1, 100)
	s := f.source(t, l, byOffset)
	require.NoError(t, l.within(t, s, 10))
	require.ErrorIs(t, s.Run(t.Context()), bridge.ErrRan)
	require.Len(t, f.all(t, "poured"), l.acked["topic/0"])

	closed := gochannel.NewGoChannel(gochannel.Config{}, nil)
	require.NoError(t, closed.Close())
	require.ErrorContains(t, f.source(t, closed, byUUID).Run(t.Context()), "closed")
	closing := gochannel.NewGoChannel(gochannel.Config{}, nil)
	time.AfterFunc(20*time.Millisecond, func() { _ = closing.Close() })
	require.ErrorIs(t, f.source(t, closing, byUUID).Run(t.Context()), bridge.ErrSourceEnded)

	f.server.Command(t, "SET", "emq:{"+f.scope+"}:stream:other", "of another type")
	t.Cleanup(func() { f.server.Command(t, "DEL", "emq:{"+f.scope+"}:stream:other") })
	err := l.within(t, f.source(t, l, func(c *bridge.SourceConfig) { byOffset(c); c.Address = f.scope + "/other" }), 1<<30)
	require.ErrorIs(t, err, tier.ErrWrongType)
	require.Len(t, f.all(t, "poured"), l.acked["topic/0"])
	_, err = f.client.Now(t.Context(), "x")
	require.NoError(t, err)
}

// TestSourceFinishes: what is being appended when the context ends is appended, and acked.
func TestSourceFinishes(t *testing.T) {
	f := onOne(t)
	proxy := tiertest.NewProxy(t, f.server)
	f.client = tiertest.Dial(t, proxy)
	l := newLedger(1, 1)
	ctx, end := context.WithCancel(t.Context())
	proxy.Freeze()
	s := f.source(t, l, func(c *bridge.SourceConfig) {
		c.Name, c.Position = "ledger", func(m *message.Message) (string, uint64, error) {
			end()
			return offset(m)
		}
	})
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	<-ctx.Done()
	proxy.Thaw()
	require.NoError(t, <-ended)
	require.Equal(t, 1, l.acked["topic/0"])
	require.Len(t, f.all(t, "poured"), 1)
}

// TestSourceWaits: a server that is away is waited for, and the message comes then; a run whose server is away ends with its context.
func TestSourceWaits(t *testing.T) {
	t.Parallel()
	server := tiertest.Private(t, tiertest.Valkey, "--appendonly", "yes", "--appendfsync", "always")
	f := newFixture(t, server)
	l := newLedger(1, 50)
	require.NoError(t, l.within(t, f.source(t, l, byOffset), 10))
	had := l.acked["topic/0"]
	server.Kill()
	ctx, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer end()
	require.NoError(t, f.source(t, l, byOffset).Run(ctx))
	require.Equal(t, had, l.acked["topic/0"])
	ended := make(chan error, 1)
	go func() { ended <- l.within(t, f.source(t, l, byOffset), 50-had) }()
	require.NoError(t, server.Restart(t.Context()))
	require.NoError(t, <-ended)
	require.Len(t, f.all(t, "poured"), 50)
}

// TestSourceConfig: what cannot work is refused when it is made.
func TestSourceConfig(t *testing.T) {
	f := onOne(t)
	tests := []struct {
		name   string
		change func(*bridge.SourceConfig)
	}{
		{"no topic", func(c *bridge.SourceConfig) { c.Topic = "" }},
		{"no address", func(c *bridge.SourceConfig) { c.Address = "" }},
		{"neither position nor window", func(c *bridge.SourceConfig) { c.Position = nil }},
		{"both", func(c *bridge.SourceConfig) { c.Window = time.Hour }},
		{"no name", func(c *bridge.SourceConfig) { c.Name = "" }},
		{"a dot in the name", func(c *bridge.SourceConfig) { c.Name = "a.b" }},
		{"a name of nobody", func(c *bridge.SourceConfig) { c.Position, c.Window = nil, time.Hour }},
		{"a long window", func(c *bridge.SourceConfig) { c.Position, c.Name, c.Window = nil, "", 1<<63-1 }},
		{"too large messages", func(c *bridge.SourceConfig) { c.MaxMessage = 9 << 20 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := bridge.SourceConfig{Topic: "t", Address: f.scope + "/x", Name: "n", Position: offset}
			tt.change(&cfg)
			_, err := bridge.NewSource(f.client, &ledger{}, cfg)
			require.ErrorIs(t, err, bridge.ErrConfig)
		})
	}
	for _, err := range []error{
		second(bridge.NewSource(nil, &ledger{}, bridge.SourceConfig{Topic: "t", Address: "s/x", Window: time.Hour})),
		second(bridge.NewSource(f.client, nil, bridge.SourceConfig{Topic: "t", Address: "s/x", Window: time.Hour})),
	} {
		require.True(t, errors.Is(err, bridge.ErrConfig))
	}
}

func second[T any](_ T, err error) error { return err }

// handed is a source that gives these messages, and ends with its subscription.
type handed []*message.Message

func (h handed) Close() error { return nil }

func (h handed) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	out := make(chan *message.Message)
	go func() {
		defer close(out)
		for _, m := range h {
			select {
			case out <- m:
			case <-ctx.Done():
				return
			}
		}
		<-ctx.Done()
	}()
	return out, nil
}

// TestSourceGivesBack: what was taken, and is not known to stand in the stream, is nacked when a run ends.
func TestSourceGivesBack(t *testing.T) {
	f := onOne(t)
	ms := handed{note("no UUID"), note("behind it")}
	ms[1].UUID = "u"
	require.ErrorIs(t, f.source(t, ms, byUUID).Run(t.Context()), bridge.ErrNoUUID)
	select {
	case <-ms[0].Nacked():
	default:
		require.Fail(t, "the source waits for what becomes of it")
	}
}

// TestSourceRepeatsLongAgo: what is given again is known as appended, however much was since.
func TestSourceRepeatsLongAgo(t *testing.T) {
	f := onOne(t)
	var ms handed
	for i := range 4200 {
		ms = append(ms, with(note("x"), metaOffset, strconv.Itoa(i)))
	}
	ms = append(ms, with(note("x"), metaOffset, "5"), with(note("x"), metaOffset, "4200"))
	ctx, end := context.WithCancel(t.Context())
	go func() {
		<-ms[len(ms)-1].Acked()
		end()
	}()
	require.NoError(t, f.source(t, ms, byOffset).Run(ctx))
	require.Len(t, f.all(t, "poured"), 4201)
}

package bridge_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/bridge"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

func fanout(c *bridge.SubscriberConfig) { c.Group = "" }

// TestFanout: each subscription has all messages, in order, also those that it nacked, and nothing of it is on the server.
func TestFanout(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		s := f.subscriber(t, fanout)
		outs := []<-chan *message.Message{subscribe(t, s, "t"), subscribe(t, s, "t"), subscribe(t, f.subscriber(t, fanout), "t")}
		p := f.publisher(t)
		w, err := stream.NewWriter(f.client, stream.WriterConfig{Address: f.scope + "/t", Pack: 10})
		require.NoError(t, err)
		publish(t, p, "t", numbers(300)[:100]...)
		_, err = w.AppendBatch(t.Context(), records(numbers(300)[100:]))
		require.NoError(t, err)
		for k, out := range outs {
			nacks := 3 * k
			for _, want := range numbers(300) {
				m := receive(t, out)
				for attempt := 1; want == "150" && nacks > 0; nacks-- {
					require.True(t, m.Nack())
					m = receive(t, out)
					attempt++
					require.Equal(t, strconv.Itoa(attempt), m.Metadata[bridge.MetaAttempt])
				}
				require.Equal(t, want, string(m.Payload))
				require.True(t, m.Ack())
			}
		}
		groups, err := stream.Groups(t.Context(), f.client, f.scope+"/t")
		require.NoError(t, err)
		require.Empty(t, groups)
	})
}

// TestFanoutGivesUp: what is nacked too often, or is no message, is left behind, and the channel goes on; without order, others
// do not wait for a nacked one, however many of them there are.
func TestFanoutGivesUp(t *testing.T) {
	f := onOne(t)
	raw, err := tiertest.Raw(f.server)
	require.NoError(t, err)
	defer raw.Close()
	publish(t, f.publisher(t), "t", numbers(200)...)
	require.NoError(t, raw.Do(t.Context(), raw.B().Xadd().Key("emq:{"+f.scope+"}:stream:t").Id("*").FieldValue().FieldValue("who", "a stranger").Build()).Error())
	publish(t, f.publisher(t), "t", "last")
	out := subscribe(t, f.subscriber(t, func(c *bridge.SubscriberConfig) {
		fanout(c)
		c.Start, c.MaxInFlight, c.Consumer.MaxDeliveries = stream.Head(), 8, 3
	}), "t")
	counts := map[string]int{}
	for range 3*200 + 1 {
		m := receive(t, out)
		counts[string(m.Payload)]++
		if string(m.Payload) == "last" {
			require.True(t, m.Ack())
		} else {
			require.True(t, m.Nack())
		}
	}
	for text, n := range counts {
		require.Equal(t, map[bool]int{true: 1, false: 3}[text == "last"], n, text)
	}
	publish(t, f.publisher(t), "t", "more")
	require.Equal(t, []string{"more"}, acked(t, out, 1))
}

// TestFanoutAside: what waits in memory to come again has so many bytes, and nothing more is read until some of it has gone.
func TestFanoutAside(t *testing.T) {
	t.Parallel()
	records := make(chan codec.Record, 20)
	large := make([]byte, 8<<20)
	for i := range cap(records) {
		records <- codec.Record{ID: codec.ID{1}, Addr: codec.EntryID{Ms: uint64(i + 1)}, Message: codec.Message{Data: large}}
	}
	l := bridge.NewListener(records)
	read := func() (n int) {
		for {
			got, err := l.Read(t.Context(), 1, time.Millisecond)
			require.NoError(t, err)
			if len(got) == 0 {
				return n
			}
			n++
			require.NoError(t, l.Commit(t.Context(), []tier.Ending{{Entry: got[0].Entry, Open: []tier.Open{{Attempt: 1, Delay: time.Duration(got[0].Entry.Ms-1) * time.Hour}}}}))
		}
	}
	require.Equal(t, 8, read())
	taken, err := l.Due(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, taken.Leased, 1)
	_, err = l.Settle(t.Context(), []codec.EntryID{taken.Leased[0].Entry})
	require.NoError(t, err)
	require.Equal(t, 1, read())
}

// TestFanoutTrimmed: what was trimmed before it was read is lost to a fan-out, which goes on behind it; a stream that is removed
// ends it.
func TestFanoutTrimmed(t *testing.T) {
	f := onOne(t)
	p := f.publisher(t)
	publish(t, p, "t", numbers(3000)...)
	out := subscribe(t, f.subscriber(t, func(c *bridge.SubscriberConfig) {
		fanout(c)
		c.Start, c.Consumer.MaxInFlight = stream.Head(), 8
	}), "t")
	require.Equal(t, []string{"0"}, acked(t, out, 1))
	_, err := stream.Purge(t.Context(), f.client, f.scope+"/t")
	require.NoError(t, err)
	publish(t, p, "t", "new")
	for last := ""; last != "new"; {
		last = acked(t, out, 1)[0]
	}
	_, err = stream.Remove(t.Context(), f.client, f.scope+"/t")
	require.NoError(t, err)
	ended(t, out)
}

// TestFanoutOfALostStream: a stream that the server has lost, and that is made again, is given out from its beginning.
func TestFanoutOfALostStream(t *testing.T) {
	t.Parallel()
	f := newFixture(t, tiertest.Private(t, tiertest.Valkey))
	raw, err := tiertest.Raw(f.server)
	require.NoError(t, err)
	defer raw.Close()
	publish(t, f.publisher(t), "t", numbers(3)...)
	out := subscribe(t, f.subscriber(t, func(c *bridge.SubscriberConfig) {
		fanout(c)
		c.Start = stream.Head()
	}), "t")
	require.Equal(t, numbers(3), acked(t, out, 3))
	refill := f.publisher(t)
	results := raw.DoMulti(t.Context(), raw.B().Multi().Build(), raw.B().Flushall().Build(), raw.B().Exec().Build())
	for _, r := range results {
		require.NoError(t, r.Error())
	}
	publish(t, refill, "t", "4", "5")
	require.Equal(t, []string{"4", "5"}, acked(t, out, 2))
}

// TestFanoutByKey: order by key holds without a group.
func TestFanoutByKey(t *testing.T) {
	f := onOne(t)
	p := f.publisher(t)
	for _, text := range numbers(30) {
		require.NoError(t, p.Publish("t", with(note(text), bridge.MetaKey, "k")))
	}
	out := subscribe(t, f.subscriber(t, func(c *bridge.SubscriberConfig) {
		fanout(c)
		c.Start, c.MaxInFlight, c.Consumer.Order = stream.Head(), 4, consumer.ByKey
		c.Consumer.Backoff, c.Consumer.MaxBackoff = 5*time.Millisecond, 5*time.Millisecond
	}), "t")
	require.Equal(t, []string{"0"}, acked(t, out, 1))
	require.True(t, receive(t, out).Nack())
	require.Equal(t, numbers(30)[1:], acked(t, out, 29))
}

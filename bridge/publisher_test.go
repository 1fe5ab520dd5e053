package bridge_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/bridge"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// note is a message with a payload, and no UUID.
func note(payload string) *message.Message { return message.NewMessage("", []byte(payload)) }

func with(m *message.Message, key, value string) *message.Message {
	m.Metadata[key] = value
	return m
}

// TestPublisherConfig: what cannot work is refused when it is made.
func TestPublisherConfig(t *testing.T) {
	f := onOne(t)
	tests := []struct {
		name string
		cfg  bridge.PublisherConfig
	}{
		{"no scope", bridge.PublisherConfig{}},
		{"a bad scope", bridge.PublisherConfig{Topics: bridge.Topics{Scope: "{a}"}}},
		{"too many in a pack", bridge.PublisherConfig{Topics: f.topics(), Pack: 5000}},
		{"too large messages", bridge.PublisherConfig{Topics: f.topics(), MaxMessage: 9 << 20}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := bridge.NewPublisher(f.client, tt.cfg)
			require.ErrorIs(t, err, bridge.ErrConfig)
		})
	}
	_, err := bridge.NewPublisher(nil, bridge.PublisherConfig{Topics: f.topics()})
	require.ErrorIs(t, err, bridge.ErrConfig)
}

// TestPublishRefuses (B77): bad input is a typed error, and nothing of the call was sent.
func TestPublishRefuses(t *testing.T) {
	f := onOne(t)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	cancelled := note("x")
	cancelled.SetContext(over)
	closed, err := bridge.NewPublisher(f.client, bridge.PublisherConfig{Topics: f.topics()})
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	require.NoError(t, closed.Close())
	open := f.publisher(t)

	limit, large := (*codec.LimitError)(nil), (*stream.TooLargeError)(nil)
	tests := []struct {
		name string
		pub  message.Publisher
		m    *message.Message
		is   error
		as   any
	}{
		{"nil", open, nil, bridge.ErrNilMessage, nil},
		{"closed", closed, note("x"), bridge.ErrClosed, nil},
		{"cancelled", open, cancelled, context.Canceled, nil},
		{"reserved metadata", open, with(note("x"), bridge.MetaUUID, "u"), bridge.ErrReserved, nil},
		{"a long value", open, with(note("x"), "k", strings.Repeat("v", codec.MaxHeaderValue+1)), nil, &limit},
		{"a long key of metadata", open, with(note("x"), strings.Repeat("k", codec.MaxHeaderKey+1), ""), nil, &limit},
		{"a long key", open, with(note("x"), bridge.MetaKey, strings.Repeat("k", codec.MaxKey+1)), nil, &limit},
		{"a large payload", open, note(strings.Repeat("x", 1<<20)), nil, &large},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			topic := "refused." + strconv.Itoa(i)
			err := tt.pub.Publish(topic, note("before"), tt.m)
			if tt.as != nil {
				require.ErrorAs(t, err, tt.as)
			} else {
				require.ErrorIs(t, err, tt.is)
			}
			r, err := stream.NewReader(f.client, stream.ReaderConfig{Address: f.scope + "/" + topic})
			require.NoError(t, err)
			_, err = r.Last(t.Context(), 1)
			require.ErrorIs(t, err, stream.ErrNoStream)
		})
	}
	require.NoError(t, open.Publish("nothing"))
}

// TestPublishSharesRoundTrips: sixteen who publish at once make far fewer calls than messages, and each one's stay in order; a
// slice is one call, and more than a call takes is several.
func TestPublishSharesRoundTrips(t *testing.T) {
	f := onOne(t)
	metrics := prometheus.NewRegistry()
	p, err := bridge.NewPublisher(f.client, bridge.PublisherConfig{Topics: f.topics(), Registerer: metrics})
	require.NoError(t, err)
	calls := func() (n uint64) {
		families, err := metrics.Gather()
		require.NoError(t, err)
		for _, family := range families {
			if strings.HasSuffix(family.GetName(), "append_seconds") {
				for _, m := range family.Metric {
					n += m.GetHistogram().GetSampleCount()
				}
			}
		}
		return n
	}
	const each = 200
	var wg sync.WaitGroup
	for k := range 16 {
		wg.Go(func() {
			for i := range each {
				if err := p.Publish("shared", note(fmt.Sprintf("%d %d", k, i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.Less(t, calls(), uint64(16*each/2))

	before := calls()
	many := make([]*message.Message, 5000)
	for i := range many {
		many[i] = note(strconv.Itoa(i))
	}
	require.NoError(t, p.Publish("slice", many...))
	require.Equal(t, before+2, calls())
	require.NoError(t, p.Close())

	next := map[string]int{}
	for _, m := range f.all(t, "shared") {
		who, number, _ := strings.Cut(string(m.Data), " ")
		require.Equal(t, strconv.Itoa(next[who]), number)
		next[who]++
	}
	require.Len(t, next, 16)
	for i, m := range f.all(t, "slice") {
		require.Equal(t, strconv.Itoa(i), string(m.Data))
	}
}

// all is what stands in a topic's stream.
func (f fixture) all(t *testing.T, topic string) (records []codec.Record) {
	t.Helper()
	r, err := stream.NewReader(f.client, stream.ReaderConfig{Address: f.scope + "/" + bridge.StreamOf(topic)})
	require.NoError(t, err)
	for record, err := range r.Range(t.Context(), codec.EntryID{}, codec.MaxEntryID) {
		require.NoError(t, err)
		records = append(records, record)
	}
	return records
}

// TestPublisherCloseWaits (B98): what is being published when the publisher is closed arrives.
func TestPublisherCloseWaits(t *testing.T) {
	f := onOne(t)
	p, err := bridge.NewPublisher(f.client, bridge.PublisherConfig{Topics: f.topics()})
	require.NoError(t, err)
	results := make(chan error, 64)
	for i := range cap(results) {
		go func() { results <- p.Publish("late", note(strconv.Itoa(i))) }()
	}
	sent := 0
	require.NoError(t, p.Close())
	for range cap(results) {
		if err := <-results; err == nil {
			sent++
		} else {
			require.ErrorIs(t, err, bridge.ErrClosed)
		}
	}
	if sent == 0 { // then not even the stream is there
		return
	}
	require.Len(t, f.all(t, "late"), sent)
}

// TestPublishPartly: of a call that the server takes one part of, and refuses the rest, the error says so.
func TestPublishPartly(t *testing.T) {
	t.Parallel()
	f := newFixture(t, tiertest.Private(t, tiertest.Valkey))
	room := func(bytes int) {
		info := f.server.Command(t, "INFO", "memory")
		text, err := info.ToString()
		require.NoError(t, err)
		_, used, _ := strings.Cut(text, "used_memory:")
		used, _, _ = strings.Cut(used, "\r\n")
		n, err := strconv.Atoi(used)
		require.NoError(t, err)
		f.server.Command(t, "CONFIG", "SET", "maxmemory", strconv.Itoa(n+bytes))
	}
	many := make([]*message.Message, 5000)
	for i := range many { // those of the second call are far larger
		many[i] = note(strings.Repeat("x", max(1, 8000*(i/stream.MaxBatch))))
	}
	old, err := bridge.NewPublisher(f.client, bridge.PublisherConfig{Topics: bridge.Topics{Wire: bridge.RedisStream}})
	require.NoError(t, err)
	for _, p := range []message.Publisher{f.publisher(t), old} {
		require.NoError(t, p.Publish("t", note("first")))
		room(4 << 20)
		err := p.Publish("t", many...)
		require.ErrorIs(t, err, tier.ErrPartly)
		require.ErrorIs(t, err, tier.ErrStoreFull)
		require.True(t, tier.OutcomeUnknown(err))
		room(-1 << 20)
		err = p.Publish("t", note("none"))
		require.ErrorIs(t, err, tier.ErrStoreFull)
		require.NotErrorIs(t, err, tier.ErrPartly)
		f.server.Command(t, "CONFIG", "SET", "maxmemory", "0")
	}
	require.Len(t, f.all(t, "t"), 1+stream.MaxBatch)
}

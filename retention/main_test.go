package retention_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/retention"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

func TestMain(m *testing.M) { tiertest.Main(m) }

const soon = 20 * time.Second

// stage is a scope of the test's own, with streams that get policies.
type stage struct {
	t      testing.TB
	ctx    context.Context
	server *tiertest.Server
	client *tier.Client
	scope  string
	reg    *prometheus.Registry
}

func newStage(t testing.TB, s *tiertest.Server) *stage {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return &stage{t, ctx, s, tiertest.Dial(t, s), tiertest.AuditedScope(t, s), prometheus.NewRegistry()}
}

func (s *stage) address(name string) string { return s.scope + "/" + name }

// append appends n messages to a stream, each with so many bytes of data.
func (s *stage) append(name string, n, bytes int) {
	s.t.Helper()
	w, err := stream.NewWriter(s.client, stream.WriterConfig{Address: s.address(name)})
	require.NoError(s.t, err)
	for n > 0 {
		ms := make([]codec.Message, min(n, 4096, max(1, (512<<10)/(bytes+64))))
		for i := range ms {
			ms[i] = codec.Message{Type: "t", Key: strconv.Itoa(i), Data: make([]byte, bytes)}
		}
		_, err := w.AppendBatch(s.ctx, ms)
		require.NoError(s.t, err)
		n -= len(ms)
	}
}

func (s *stage) declare(name string, policy stream.Retention) {
	s.t.Helper()
	require.NoError(s.t, stream.SetRetention(s.ctx, s.client, s.address(name), policy))
}

// member is one of a group that begins at the head.
func (s *stage) member(name, group string) *stream.Member {
	s.t.Helper()
	g, err := stream.NewGroup(s.client, stream.GroupConfig{Address: s.address(name), Name: group, Start: stream.Head(), Lease: time.Minute})
	require.NoError(s.t, err)
	require.NoError(s.t, g.Create(s.ctx))
	m, err := g.Join(s.ctx, "m")
	require.NoError(s.t, err)
	return m
}

// settles reads n entries, and settles them.
func (s *stage) settles(m *stream.Member, n int) {
	s.t.Helper()
	for n > 0 {
		leased, err := m.Read(s.ctx, min(n, 1000), 0)
		require.NoError(s.t, err)
		require.NotEmpty(s.t, leased)
		ids := make([]codec.EntryID, len(leased))
		for i := range leased {
			ids[i] = leased[i].Entry
		}
		_, err = m.Settle(s.ctx, ids)
		require.NoError(s.t, err)
		n -= len(leased)
	}
}

func (s *stage) holdings(name string) stream.Holdings {
	s.t.Helper()
	h, err := stream.HoldingsOf(s.ctx, s.client, s.address(name))
	require.NoError(s.t, err)
	return h
}

func (s *stage) sweeper(cfg retention.SweeperConfig) *retention.Sweeper {
	s.t.Helper()
	cfg.Scope, cfg.Registerer = s.scope, s.reg
	if cfg.Beat == 0 {
		cfg.Beat = 10 * time.Millisecond
	}
	sw, err := retention.NewSweeper(s.client, cfg)
	require.NoError(s.t, err)
	return sw
}

// runs runs a sweeper until stop, or the end of the test.
func (s *stage) runs(sw *retention.Sweeper) (stop func()) {
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan error, 1)
	go func() { done <- sw.Run(ctx) }()
	ended := false
	stop = func() {
		if !ended {
			ended = true
			cancel()
			require.NoError(s.t, <-done)
		}
	}
	s.t.Cleanup(stop)
	return stop
}

// becomes waits until a stream has so many entries.
func (s *stage) becomes(name string, length int64) {
	s.t.Helper()
	tiertest.Eventually(s.t, soon, func() (bool, string) {
		n := s.holdings(name).Length
		return n == length, name + " has " + strconv.FormatInt(n, 10) + " entries"
	})
}

// metric is the sum of a metric's series with these labels.
func (s *stage) metric(name string, labels ...string) (sum float64) {
	s.t.Helper()
	families, err := s.reg.Gather()
	require.NoError(s.t, err)
	for _, family := range families {
		if family.GetName() != "echomq_retention_"+name {
			continue
		}
	series:
		for _, series := range family.GetMetric() {
			have := map[string]string{}
			for _, pair := range series.GetLabel() {
				have[pair.GetName()] = pair.GetValue()
			}
			for i := 0; i < len(labels); i += 2 {
				if have[labels[i]] != labels[i+1] {
					continue series
				}
			}
			sum += series.GetCounter().GetValue() + series.GetGauge().GetValue()
		}
	}
	return sum
}

// do sends a command past package tier; its first argument is the key.
func (s *stage) do(cmd, key string, args ...string) {
	s.t.Helper()
	raw, err := tiertest.Raw(s.server)
	require.NoError(s.t, err)
	defer raw.Close()
	require.NoError(s.t, raw.Do(s.ctx, raw.B().Arbitrary(cmd).Keys(key).Args(args...).Build()).Error())
}

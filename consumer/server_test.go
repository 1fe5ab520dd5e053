package consumer_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/tiertest"
)

// B148: the server is killed under load and reads its data for a while: writers and consumers wait for it, and nothing is
// lost.
func TestServerLoads(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := tiertest.Private(t, kind, "--appendonly", "yes", "--appendfsync", "always",
				"--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024")
			s.Command(t, "EVAL", "for i = 1, 1000 do redis.call('SET', 'k' .. i, 'v') end", "0")
			l := startLoad(t, s)
			s.Kill()
			require.NoError(t, s.Restart(t.Context()))
			l.flows("after the server has loaded its data")
			l.ends(true)
		})
	}
}

// B150: the server cannot write to its disk and takes no writes, to which reading through a group and settling belong as
// well: the consumer waits, and goes on when it can.
func TestDiskBroken(t *testing.T) {
	t.Parallel()
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "disk")
			require.NoError(t, os.Mkdir(dir, 0o700))
			s := newStage(t, tiertest.Private(t, kind, "--dir", dir, "--save", "3600 1"))
			s.append(10, 1)
			enter, leave := make(chan struct{}, 20), make(chan struct{})
			seen := newTally()
			reg := prometheus.NewRegistry()
			r := s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
				enter <- struct{}{}
				<-leave
				seen.add(d.Position.String())
				return nil
			}, consumer.Config{Registerer: reg})
			get(t, enter)
			require.NoError(t, os.RemoveAll(dir))
			_ = s.server.Command(t, "BGSAVE")
			tiertest.Eventually(t, patience, func() (bool, string) {
				info := s.server.Command(t, "INFO", "persistence")
				return strings.Contains(info.String(), "rdb_last_bgsave_status:err"), "it writes"
			})
			close(leave)
			seen.reach(t, 10, patience)
			tiertest.Eventually(t, patience, func() (bool, string) {
				return sum(t, reg, "echomq_consumer_call_failures_total", "", "") >= 5, "calls do not fail"
			})
			require.Equal(t, 10, s.pending(), "handled, and not settled")
			s.server.Command(t, "CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
			s.settled(patience)
			s.append(10, 1)
			seen.reach(t, 20, patience)
			s.settled(patience)
			require.Equal(t, 20, seen.deliveries())
			r.stop()
			require.NoError(t, r.wait(patience))
		})
	}
}

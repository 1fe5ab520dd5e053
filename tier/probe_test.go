package tier_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestParseInfo: what servers say of themselves, and which of them are too old.
func TestParseInfo(t *testing.T) {
	tests := []struct {
		name string
		text string
		want tier.Server
		old  bool
	}{
		{
			"valkey", "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n\r\n# Memory\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\ncluster_enabled:0\r\n",
			tier.Server{Name: "valkey", Version: "8.0.1", Eviction: "noeviction", AppendLog: true},
			false,
		},
		{"redis", "redis_version:7.0.15\ncluster_enabled:1\nmaxmemory_policy:allkeys-lru\naof_enabled:0", tier.Server{Name: "redis", Version: "7.0.15", Cluster: true, Eviction: "allkeys-lru"}, false},
		{"redis 8", "redis_version:8.2.0", tier.Server{Name: "redis", Version: "8.2.0"}, false},
		{"two digits", "redis_version:10.1.0", tier.Server{Name: "redis", Version: "10.1.0"}, false},
		{"old", "redis_version:6.2.14", tier.Server{Name: "redis", Version: "6.2.14"}, true},
		{"unstable", "redis_version:255.255.255", tier.Server{Name: "redis", Version: "255.255.255"}, false},
		{"no version", "# Server\r\n", tier.Server{Name: "redis"}, true},
		{"garbage", "redis_version:x.y\n:\n::\n#", tier.Server{Name: "redis", Version: "x.y"}, true},
		{"empty", "", tier.Server{Name: "redis"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tier.ParseInfo(tt.text)
			require.Equal(t, tt.want, got)
			if tt.old {
				require.ErrorIs(t, err, tier.ErrServerTooOld)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

// TestWarnings (B65): settings under which data may go missing are warned about when a client connects, and only those.
func TestWarnings(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args []string
		want []string
	}{
		{[]string{"--appendonly", "yes"}, nil},
		{nil, []string{"append-only"}},
		{[]string{"--maxmemory-policy", "allkeys-lru"}, []string{"allkeys-lru", "append-only"}},
		{[]string{"--maxmemory-policy", "volatile-ttl", "--appendonly", "yes"}, []string{"volatile-ttl"}},
	}
	for _, tt := range tests {
		s := tiertest.Private(t, tiertest.Valkey, tt.args...)
		var log bytes.Buffer
		c, err := tier.Dial(t.Context(), s.URL(), tier.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		require.Len(t, c.Server().Warnings(), len(tt.want))
		c.Close()
		require.Equal(t, len(tt.want), strings.Count(log.String(), "level=WARN"))
		for i, w := range tt.want {
			require.Contains(t, c.Server().Warnings()[i], "CONFIG REWRITE, or write it into the configuration file")
			require.Contains(t, c.Server().Warnings()[i], w)
			require.Contains(t, log.String(), w)
		}
	}
}

// FuzzParseInfo: no panic, and no version without a number.
func FuzzParseInfo(f *testing.F) {
	f.Add("redis_version:7.0.15\ncluster_enabled:1\n")
	f.Add("valkey_version:8.0.1\r\nredis_version:7.2.4\r\n")
	f.Add("redis_version:\n:\n:::\x00")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := tier.ParseInfo(text)
		if err == nil {
			require.Regexp(t, `^\+?\d+(\.|$)`, s.Version)
		} else {
			require.ErrorIs(t, err, tier.ErrServerTooOld)
		}
	})
}

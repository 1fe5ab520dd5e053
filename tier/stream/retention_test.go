package stream_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestRetentionText: a policy is the same after it was written and read; what this version cannot read, and what breaks a
// rule, is refused.
func TestRetentionText(t *testing.T) {
	for _, text := range []string{
		"", "max-length=1", "max-age=1500", "max-bytes=1048576", "settled", "settled exact", "hard-cap=10",
		"max-length=10 max-age=20 max-bytes=30 settled exact hard-cap=40 retire=50000", "retire=1000",
		"archive=s3://bucket/a?region=eu-west-1", "settled archive=file:///a segment-bytes=1 segment-age=2 archive-age=3",
	} {
		r, err := stream.ParseRetention(text)
		require.NoError(t, err, text)
		require.Equal(t, text, r.String())
	}
	for _, text := range []string{
		"max-length", "max-length=", "max-length=x", "max-length=0", "max-length=-1", "max-length=01", "max-age=-1", "max-bytes=-1", "hard-cap=-1",
		"exact", "settled=1", "settled settled", "exact settled", "max-length=1 max-length=2", "settled  exact", " settled",
		"max-length=1 hold=mailer", "max-length=11 hard-cap=10", "retire=999", "max-age=9223372036854775807",
		"archive=", "archive=bucket", "segment-age=1", "archive=file:///a archive-age=-1", "archive=s3://me:word@bucket/a", "archive=s3://bucket/a?secret_access_key=x",
		"archive=https://account.host/container?sv=2024&sig=x",
	} {
		r, err := stream.ParseRetention(text)
		require.ErrorIs(t, err, stream.ErrRetention, text)
		require.Zero(t, r, text)
	}
}

// TestSetRetention: every client sees the policy; writers at work and those that come do not notice; removal takes it along.
func TestSetRetention(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		want := stream.Retention{MaxLength: 5, MaxAge: time.Hour, Settled: true}
		require.ErrorIs(t, stream.SetRetention(f.ctx, f.client, f.address, want), stream.ErrNoStream)
		w := f.writer(stream.WriterConfig{})
		f.append(w, 3)
		declared := f.text("HGET", tier.ScopeKey(f.addr().Scope), "stream:orders")

		require.NoError(t, stream.SetRetention(f.ctx, f.client, f.address, want))
		got, err := stream.RetentionOf(f.ctx, f.client, f.address)
		require.NoError(t, err)
		require.Equal(t, want, got)
		list, err := stream.Retentions(f.ctx, f.client, f.addr().Scope)
		require.NoError(t, err)
		require.Equal(t, []stream.Retained{{Address: f.addr(), Policy: want}}, list)
		require.Equal(t, declared, f.text("HGET", tier.ScopeKey(f.addr().Scope), "stream:orders"))
		f.append(w, 1)
		f.append(f.writer(stream.WriterConfig{}), 1)
		require.Equal(t, "5", f.length())

		require.NoError(t, stream.SetRetention(f.ctx, f.client, f.address, stream.Retention{}))
		list, err = stream.Retentions(f.ctx, f.client, f.addr().Scope)
		require.NoError(t, err)
		require.Empty(t, list)

		require.NoError(t, stream.SetRetention(f.ctx, f.client, f.address, want))
		_, err = stream.Remove(f.ctx, f.client, f.address)
		require.NoError(t, err)
		require.ErrorIs(t, stream.SetRetention(f.ctx, f.client, f.address, want), stream.ErrStreamRemoved)
		f.append(f.writer(stream.WriterConfig{}), 1) // made anew
		got, err = stream.RetentionOf(f.ctx, f.client, f.address)
		require.NoError(t, err)
		require.Zero(t, got)
	})
}

// TestSetRetentionRefuses: what breaks a rule is not sent.
func TestSetRetentionRefuses(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	f.append(f.writer(stream.WriterConfig{}), 1)
	for _, r := range []stream.Retention{
		{MaxLength: -1},
		{MaxAge: -time.Hour},
		{MaxAge: time.Microsecond},
		{MaxAge: math.MaxInt64},
		{MaxBytes: -1},
		{HardCap: -1},
		{Exact: true},
		{MaxLength: 10, HardCap: 9},
	} {
		require.ErrorIs(t, stream.SetRetention(f.ctx, f.client, f.address, r), stream.ErrRetention, "%+v", r)
	}
	require.Error(t, stream.SetRetention(f.ctx, f.client, "orders", stream.Retention{}))
}

// TestRetentionOfANewerVersion: a policy that cannot be read is listed as such, and the audit tells of it.
func TestRetentionOfANewerVersion(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	f.append(f.writer(stream.WriterConfig{}), 1)
	key := tier.ScopeKey(f.addr().Scope)
	f.do("HSET", key, "retention:orders", "settled unless=tuesday", "retention:none", "settled")
	defer f.do("HDEL", key, "retention:orders", "retention:none")
	list, err := stream.Retentions(f.ctx, f.client, f.addr().Scope)
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.ErrorIs(t, list[1].Err, stream.ErrRetention)
	require.ErrorContains(t, list[1].Err, "upgrade it")
	findings := tier.Findings(stream.Check(f.ctx, f.client, f.addr().Scope))
	require.Len(t, findings, 2)
	for _, finding := range findings {
		require.Contains(t, finding.Broken, "retention")
	}
}

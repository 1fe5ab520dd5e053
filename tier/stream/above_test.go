package stream_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestIDsNeverStepBack (B90): a writer that was given ids an hour ahead of the clock is given none that is not above
// them, when the server has lost the log, too.
func TestIDsNeverStepBack(t *testing.T) {
	losses := []struct {
		name string
		lose func(*fixture)
	}{
		{"flushed", func(f *fixture) { f.do("FLUSHALL") }},
		{"log deleted", func(f *fixture) { f.do("DEL", f.log()) }},
		{"log of an older server", func(f *fixture) {
			f.do("DEL", f.log())
			f.do("XADD", f.log(), "*", "m", encoded(f.t, "older"))
		}},
	}
	tiertest.EachPrivate(t, func(t *testing.T, s *tiertest.Server) {
		for _, loss := range losses {
			for _, pack := range []int{1, 3} {
				t.Run(fmt.Sprintf("%s, pack %d", loss.name, pack), func(t *testing.T) {
					f := setUp(t, s)
					w := f.writer(stream.WriterConfig{Pack: pack})
					given := f.append(w, 2)
					f.do("XSETID", f.log(), fmt.Sprintf("%d-4090", f.now().Add(time.Hour).UnixMilli()))
					for range 2 {
						given = append(given, f.append(w, 5)...)
						loss.lose(f)
						before := len(f.existing())
						kept := f.append(w, 4096) // over the end of a millisecond
						kept = append(kept, f.append(w, 1)...)
						all := f.all()
						requireAscending(t, all)
						require.Equal(t, kept, idsOf(all)[before:])
						given = append(given, kept...)
						added, err := collected(stream.Streams(f.ctx, f.client, f.addr().Scope))
						require.NoError(t, err)
						require.EqualValues(t, added[0].Length, added[0].Added, "an entry that was taken back counts")
					}
					for i := 1; i < len(given); i++ {
						require.Less(t, given[i-1].String(), given[i].String())
					}
				})
			}
		}
	})
}

// existing is all, of a log that may be unknown.
func (f *fixture) existing() []codec.Record {
	if f.length() == "0" {
		return nil
	}
	return f.all()
}

// TestBelowAFarTop (B72): what the log has lost was given at the end of the ids: an append is refused, with nothing
// written.
func TestBelowAFarTop(t *testing.T) {
	const lastMs = codec.Epoch + 1<<41 - 1
	for pack, left := range map[int]int{1: 2, 3: 11} { // milliseconds
		t.Run(fmt.Sprint("pack ", pack), func(t *testing.T) {
			t.Parallel()
			tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
				f := setUp(t, s)
				w := f.writer(stream.WriterConfig{Pack: pack})
				f.append(w, 1)
				f.do("XSETID", f.log(), fmt.Sprintf("%d-4092", lastMs-left))
				f.append(w, 3)
				f.do("DEL", f.log())
				_, err := w.Append(f.ctx, codec.Message{})
				require.ErrorIs(t, err, stream.ErrIDSpace)
				require.Equal(t, "0", f.length())
			})
		})
	}
}

// TestBrandIsProposedAgain: a flushed server gives a stream the brand that it had, which its name would not give; when
// that belongs to another stream by now, the writer goes on with a new one. Each loss is told once.
func TestBrandIsProposedAgain(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Private(t, tiertest.Valkey))
	var log bytes.Buffer
	var err error
	f.client, err = tier.Dial(f.ctx, f.server.URL(), tier.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	defer f.client.Close()
	reg := prometheus.NewRegistry()
	told := func(n int) {
		t.Helper()
		require.Equal(t, float64(n), f.metric("redeclared_total", reg))
		require.Equal(t, n, strings.Count(log.String(), "the server had lost the stream, or knew it otherwise: it was declared again"), log.String())
	}
	_, err = f.writer(stream.WriterConfig{Brand: "XYZ"}).Declare(f.ctx)
	require.NoError(t, err)
	w := f.writer(stream.WriterConfig{Registerer: reg})
	require.Equal(t, codec.Brand("XYZ"), f.append(w, 1)[0].Brand())
	told(0)
	f.do("FLUSHALL")
	require.Equal(t, codec.Brand("XYZ"), f.append(w, 2)[0].Brand())
	told(1)
	f.do("FLUSHALL")
	_, _, err = w.AppendOnce(f.ctx, "k", time.Minute, codec.Message{})
	require.NoError(t, err)
	told(2)
	f.do("FLUSHALL")
	other := tiertest.Dial(t, f.server)
	o, err := stream.NewWriter(other, stream.WriterConfig{Address: f.addr().Scope + "/others", Brand: "XYZ"})
	require.NoError(t, err)
	_, err = o.Append(f.ctx, codec.Message{})
	require.NoError(t, err)
	require.Equal(t, codec.Brand("ORD"), f.append(w, 1)[0].Brand())
	told(3)
	f.do("FLUSHALL") // and whoever declares first decides
	_, err = f.writer(stream.WriterConfig{Brand: "NEW"}).Declare(f.ctx)
	require.NoError(t, err)
	require.Equal(t, codec.Brand("NEW"), f.append(w, 1)[0].Brand())
	require.NoError(t, stream.Check(f.ctx, f.client, f.addr().Scope))
	require.Equal(t, tier.Wire, f.text("GET", tier.VersionKey))
}

package stream_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestOwnerReadsOn: who reads on is given what it asks for, in order, whatever becomes of what was asked for before; and does not ask
// again for what was.
func TestOwnerReadsOn(t *testing.T) {
	t.Parallel()
	server := tiertest.Shared(t, tiertest.Valkey)
	for name, c := range map[string]struct {
		reads  []int // as many are asked for
		want   []int // and come
		before func(f *fixture, p *tiertest.Proxy, o *stream.Owner, read int) []tier.Leased
		asks   int // for what may have to be waited for
	}{
		"as many":       {reads: []int{4, 4, 4, 4}, want: []int{4, 4, 2, 0}, asks: 2},
		"just all":      {reads: []int{5, 5, 5}, want: []int{5, 5, 0}, asks: 2},
		"one at a time": {reads: []int{1, 1, 8}, want: []int{1, 1, 8}, asks: 3},
		"fewer":         {reads: []int{4, 2, 4}, want: []int{4, 2, 2}, asks: 1},
		"more":          {reads: []int{3, 8, 8}, want: []int{3, 3, 4}, asks: 2},
		"another between": {
			reads: []int{3, 3, 3}, want: []int{3, 3, 3}, asks: 3,
			before: func(f *fixture, _ *tiertest.Proxy, o *stream.Owner, read int) []tier.Leased {
				if read != 1 {
					return nil
				}
				leased, err := o.Read(f.ctx, 1, 0)
				require.NoError(f.t, err)
				return leased
			},
		},
		"its reply lost": {
			reads: []int{3, 3, 3}, want: []int{3, 3, 3}, asks: 2,
			before: func(_ *fixture, p *tiertest.Proxy, _ *stream.Owner, read int) []tier.Leased {
				if read == 0 {
					p.DropNextReply(func(cmd []string) bool { return cmd[0] == "XRANGE" && slices.Contains(cmd, "+") })
				}
				return nil
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, proxy := setUpProxied(t, server)
			f.append(f.writer(stream.WriterConfig{}), 10)
			var all []codec.EntryID
			for _, r := range f.all() {
				all = append(all, r.Position.Entry)
			}
			o := f.own(f.cursor("c", stream.Head(), time.Minute))
			var got []codec.EntryID
			var counts []int
			for i, n := range c.reads {
				if c.before != nil {
					got = append(got, entriesOf(c.before(f, proxy, o, i))...)
				}
				leased, err := o.ReadOn(f.ctx, n, 10*time.Millisecond)
				for err != nil && errors.Is(err, tier.ErrNetwork) {
					leased, err = o.ReadOn(f.ctx, n, 10*time.Millisecond)
				}
				require.NoError(t, err)
				got, counts = append(got, entriesOf(leased)...), append(counts, len(leased))
			}
			require.Equal(t, c.want, counts)
			require.Equal(t, all[:len(got)], got)
			require.Equal(t, c.asks, proxy.Commands()["XREAD"], fmt.Sprint(proxy.Commands()))
		})
	}
}

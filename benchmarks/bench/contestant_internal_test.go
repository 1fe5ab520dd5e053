package bench

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestCeilingsNotice: a ceiling whose server did less than it should fails, and is no number to be compared with.
func TestCeilingsNotice(t *testing.T) {
	t.Parallel()
	client := tiertest.Dial(t, tiertest.Shared(t, tiertest.Valkey))
	for _, tc := range []struct {
		ceiling ceiling
		spoil   []string // a command, whose key is the contestant's
		want    string
	}{
		{ceilingAppend, []string{"SET", "", "text"}, "WRONGTYPE"},
		{ceilingConsume, []string{"XDEL", "", "7-0"}, "9 of 10 acknowledged and deleted"},
		{ceilingConsume, []string{"XGROUP", "", rawGroup}, "NOGROUP"},
		{ceilingJobs, []string{"XDEL", "", "7-0"}, "9 of 10 acknowledged and deleted"},
		{ceilingRange, []string{"XDEL", "", "7-0"}, "9 of 10 read"},
	} {
		t.Run(tc.ceiling.name+" "+tc.spoil[0], func(t *testing.T) {
			t.Parallel()
			a, err := enter(t.Context(), client, 100, 0)
			require.NoError(t, err)
			defer func() { require.NoError(t, a.leave(t.Context())) }()
			c := tc.ceiling.make(a)
			require.NoError(t, c.prepare(t.Context(), 10))
			words := append([]string(nil), tc.spoil...)
			words[1] = c.keys()[0]
			if words[0] == "XGROUP" {
				words = []string{"XGROUP", "DESTROY", words[1], words[2]}
			}
			_, err = a.wire.ask(t.Context(), words...)
			require.NoError(t, err)
			require.ErrorContains(t, c.run(t.Context()), tc.want)
			require.NoError(t, c.clean(t.Context()))
		})
	}
}

// TestTogether: parts make a whole, also where one is empty.
func TestTogether(t *testing.T) {
	t.Parallel()
	client := tiertest.Dial(t, tiertest.Shared(t, tiertest.Valkey))
	a, err := enter(t.Context(), client, 100, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, a.leave(t.Context())) }()
	for n, want := range map[int][]int{1: {0, 1}, 5: {2, 3}} {
		both := []*both{{arena: a, pack: 1}, {arena: a, pack: 1}}
		c := together{both[0], both[1]}
		require.NoError(t, c.prepare(t.Context(), n))
		require.NoError(t, c.run(t.Context()))
		require.Equal(t, want, []int{both[0].n, both[1].n})
		keys := c.keys()
		require.Equal(t, []string{both[0].log, both[1].log}, keys)
		require.NoError(t, c.clean(t.Context()))
		for _, key := range keys {
			length, err := a.wire.ask(t.Context(), "XLEN", key)
			require.NoError(t, err)
			require.Zero(t, length)
		}
	}
}

// TestRecords: each is as long as it is to be, no two of a pack are alike, and they are those of every run.
func TestRecords(t *testing.T) {
	t.Parallel()
	for _, size := range []int{8, 200, 1000} {
		list := records(100, size)
		for i := range list {
			require.Len(t, list[i], size)
		}
		require.Equal(t, list, records(100, size))
	}
	list := records(100, 200)
	require.Regexp(t, `^\{"order":100007,"customer":"customer-\d+","placed":"2026-01-\d\dT\d\d:\d\d:\d\dZ","lines":\[\{"article":"A-\d+","count":\d,"price":\d+\.99\},`, string(list[7]))
	different := map[string]bool{}
	for i := range list {
		different[string(list[i])] = true
	}
	require.Len(t, different, 100)
}

// TestCounter: what is not what was sent does not count, and who waits learns that the consumer has ended.
func TestCounter(t *testing.T) {
	t.Parallel()
	c := count(3, 2)
	handle := func(data string) error {
		return c.handle(t.Context(), &consumer.Delivery{Record: codec.Record{Message: codec.Message{Data: []byte(data)}}})
	}
	require.NoError(t, handle("abc"))
	require.ErrorContains(t, handle("ab"), "a message of 2 bytes, sent were 3")
	died := errors.New("died")
	err := c.wait(t.Context(), inBackground(t.Context(), func(context.Context) error { return died }))
	require.ErrorIs(t, err, died)
	require.ErrorContains(t, err, "the consumer has ended, 1 messages are left")
	require.NoError(t, handle("abc"))
	running := inBackground(t.Context(), func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	})
	require.NoError(t, c.wait(t.Context(), running))
	require.NoError(t, running.end())
	require.NoError(t, running.end(), "once more")
}

// TestSettled waits for the server's word, and not for ever.
func TestSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		left := int64(5)
		require.NoError(t, settled(t.Context(), func(context.Context) (int64, error) {
			left--
			return left, nil
		}))
		require.Zero(t, left)
		begun := time.Now()
		err := settled(t.Context(), func(context.Context) (int64, error) { return 1, nil })
		require.ErrorContains(t, err, "what was handled is not settled after 30s")
		require.Equal(t, late, time.Since(begun))
	})
}

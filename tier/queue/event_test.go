package queue_test

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/queue"
)

// eventsData is a message of two groups, as scripts write it: two jobs that were started, and one that failed; the last group has
// an element that a later version may add.
const eventsData = `
92
 97 a5 7265616479 a6 616374697665 a1 61 a3 772d31 a0 92 ae 4a4f42304a5a476b503873744830 ae 4a4f42304a5a476b503873744831 92 cd012c ff
 98 a6 616374697665 a5 7265747279 a1 62 a3 772d31 a4 626f6f6d 91 ae 4a4f42304a5a476b503873744832 90 c3`

func eventsMessage(t testing.TB, text string) *codec.Message {
	t.Helper()
	data, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	require.NoError(t, err)
	return &codec.Message{Type: queue.EventsType, Data: data, Format: codec.FormatMsgpack}
}

func TestDecodeEvents(t *testing.T) {
	id := func(text string) codec.ID {
		id, err := codec.Parse(text)
		require.NoError(t, err)
		return id
	}
	events, err := queue.DecodeEvents(eventsMessage(t, eventsData))
	require.NoError(t, err)
	require.Equal(t, []queue.Event{
		{Job: id("JOB0JZGkP8stH0"), From: queue.Ready, To: queue.Active, Lane: "a", By: "w-1", After: 300 * time.Millisecond},
		{Job: id("JOB0JZGkP8stH1"), From: queue.Ready, To: queue.Active, Lane: "a", By: "w-1", After: -1},
		{Job: id("JOB0JZGkP8stH2"), From: queue.Active, To: queue.Retry, Lane: "b", By: "w-1", Reason: "boom", After: -1},
	}, events)
	events, err = queue.DecodeEvents(eventsMessage(t, "90"))
	require.NoError(t, err)
	require.Empty(t, events)
}

func TestDecodeEventsRefuses(t *testing.T) {
	for name, m := range map[string]*codec.Message{
		"another type":      {Type: "order.placed", Data: []byte{0x90}, Format: codec.FormatMsgpack},
		"bytes":             {Type: queue.EventsType, Data: []byte{0x90}},
		"nothing":           {Type: queue.EventsType, Format: codec.FormatMsgpack},
		"no array":          eventsMessage(t, "c3"),
		"too few elements":  eventsMessage(t, "91 95 a0 a0 a0 a0 a0"),
		"a number for text": eventsMessage(t, "91 97 01 a0 a0 a0 a0 90 90"),
		"no id":             eventsMessage(t, "91 97 a0 a0 a0 a0 a0 91 a3 4a4f42 90"),
		"more ms than jobs": eventsMessage(t, "91 97 a0 a0 a0 a0 a0 90 91 01"),
		"beyond the end":    eventsMessage(t, "dd ffffffff"),
		"jobs beyond it":    eventsMessage(t, "91 97 a0 a0 a0 a0 a0 dd ffffffff"),
	} {
		t.Run(name, func(t *testing.T) {
			events, err := queue.DecodeEvents(m)
			require.ErrorIs(t, err, queue.ErrNotEvents)
			require.Empty(t, events)
		})
	}
}

// TestEventWhat: each step of a job has a word.
func TestEventWhat(t *testing.T) {
	for _, tc := range []struct {
		from, to queue.State
		reason   string
		want     queue.What
	}{
		{queue.Absent, queue.Ready, "", queue.Enqueued},
		{queue.Absent, queue.Scheduled, "fired", queue.Enqueued},
		{queue.Absent, queue.Waiting, "", queue.Enqueued},
		{queue.Scheduled, queue.Ready, "", queue.Promoted},
		{queue.Retry, queue.Ready, "", queue.Promoted},
		{queue.Waiting, queue.Scheduled, "", queue.Promoted},
		{queue.Ready, queue.Active, "", queue.Started},
		{queue.Active, queue.Active, "", queue.TakenOver},
		{queue.Active, queue.Done, "", queue.Completed},
		{queue.Active, queue.Retry, "boom", queue.Postponed},
		{queue.Active, queue.Dead, "boom", queue.Died},
		{queue.Waiting, queue.Dead, "child failed", queue.Died},
		{queue.Active, queue.Dead, "cancelled: why", queue.Cancelled},
		{queue.Ready, queue.Gone, "cancelled: why", queue.Cancelled},
		{queue.Ready, queue.Gone, "drained", queue.Removed},
		{"", queue.Gone, "obliterated", queue.Removed},
		{queue.Dead, queue.Retry, "", queue.Requeued},
		{queue.Ready, queue.Ready, "moved", queue.Changed},
		{queue.Retry, queue.Scheduled, "replaced", queue.Changed},
		{queue.Dead, queue.Dead, "updated", queue.Changed},
	} {
		e := queue.Event{From: tc.from, To: tc.to, Reason: tc.reason}
		require.Equal(t, tc.want, e.What(), "%s to %s, %s", tc.from, tc.to, tc.reason)
	}
}

// FuzzDecodeEvents: whatever a message holds, it is read or refused, and costs no more than it weighs.
func FuzzDecodeEvents(f *testing.F) {
	for _, text := range []string{eventsData, "90", "dd ffffffff", "91 97 a0 a0 a0 a0 a0 dd ffffffff"} {
		f.Add(eventsMessage(f, text).Data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		events, err := queue.DecodeEvents(&codec.Message{Type: queue.EventsType, Data: data, Format: codec.FormatMsgpack})
		if err != nil {
			require.ErrorIs(t, err, queue.ErrNotEvents)
		}
		require.LessOrEqual(t, len(events), len(data), "a job is a byte or more")
	})
}

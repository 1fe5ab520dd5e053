package main_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestCursors: cursors stand beside groups, and the commands for groups and dead letters take their names.
func TestCursors(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	addr := numbers(t, p, 5)
	all := messages(t, p.ok("range", addr))
	c, err := stream.NewCursor(tiertest.Dial(t, shared), stream.CursorConfig{Address: addr, Name: "c", Start: stream.Head(), Lease: time.Minute})
	require.NoError(t, err)
	o, err := c.Join(t.Context(), "me")
	require.NoError(t, err)
	leased, err := o.Read(t.Context(), 3, 0)
	require.NoError(t, err)
	require.Len(t, leased, 3)
	dead := []tier.Letter{{Index: -1, Reason: "broken", Attempts: 3}}
	require.NoError(t, o.Commit(t.Context(), []tier.Ending{
		{Entry: leased[0].Entry, Deliveries: 1, Dead: dead}, {Entry: leased[1].Entry, Deliveries: 1, Open: []tier.Open{{Attempt: 1}}},
	}))
	require.Regexp(t, `^\{"kind":"cursor","group":"c","state":"active","lag":3,"lag_exact":true,"parked":1,"dead":1,"owner":"`+o.Name()+`","epoch":\d+,"crashes":0,`+
		`"checkpoint":"`+all[1].Entry+`","checkpoint_seconds":[\d.e-]+,"lease_seconds":60,"paused":false\}\n$`, p.ok("groups", addr).out)
	require.Regexp(t, `^CURSOR +STATE +LAG +PARKED +DEAD +CRASHES +OWNER +AGE +CHECKPOINT +LEASE +EPOCH\nc +active +3 +1 +1 +0 +`+o.Name(), p.ok("groups", addr, "--output", "text").out)

	of := func(args ...string) []string { return append(args, addr, "--group", "c") }
	require.Equal(t, "paused cursor c of "+addr+": lag 3, 0 pending, 1 parked\n", p.ok(of("group", "pause", "--output", "text")...).out)
	require.Contains(t, p.ok("groups", addr).out, `"state":"paused"`)
	require.Contains(t, p.ok(of("group", "pause", "--output", "text")...).out, "was paused already")
	require.Contains(t, p.ok(of("group", "resume")...).out, `{"action":"resume-cursor","stream":"`+addr+`","group":"c","changed":true}`)

	// A letter of what is parked, and is being handled; then of what is not.
	taken, err := o.Due(t.Context(), 1)
	require.NoError(t, err)
	require.Len(t, taken.Leased, 1)
	require.Equal(t, "would drop 1 dead letter of cursor c of "+addr+"\n", p.ok(of("dead", "drop", "--all", "--dry-run", "--output", "text")...).out)
	require.Contains(t, p.run(of("dead", "ls", "--match", "nothing")...).errOut, "no dead letter of cursor c of "+addr+" matches")
	letters := lettersOf(t, p.ok(of("dead", "ls")...))
	require.Len(t, letters, 1)
	require.Equal(t, all[0].ID, letters[0].Message.ID)
	require.EqualValues(t, 1, object(t, p.ok(of("dead", "redrive", "--all", "--yes")...))["redriven"])
	taken, err = o.Due(t.Context(), 1)
	require.NoError(t, err)
	require.Len(t, taken.Leased, 1, "it is with its cursor again")
	require.Equal(t, leased[0].Entry, taken.Leased[0].Entry)
	at, err := tier.ParseAddress(addr)
	require.NoError(t, err)
	raw(t, shared, "XADD", at.DeadKey("c"), "*", "entry", all[1].Entry, "reason", "r", "attempts", "1")
	r := p.run(of("dead", "redrive", "--all", "--yes")...)
	require.Equal(t, 1, r.code)
	require.EqualValues(t, 1, object(t, result{out: r.out})["busy"])

	reset := of("group", "reset", "--to", "head")
	require.Contains(t, p.ok(append(reset, "--dry-run", "--output", "text")...).out, "would move cursor c of "+addr+" to head: lag 3; 2 parked, which it forgets; owned by "+o.Name()+"; 1 dead letter, which stay\n")
	require.Equal(t, "move-cursor", object(t, p.ok(append(reset, "--yes")...))["action"])
	_, err = o.Settle(t.Context(), []codec.EntryID{leased[2].Entry})
	require.ErrorIs(t, err, tier.ErrFenced)
	require.Regexp(t, `"state":"dead","lag":5,"lag_exact":true,"parked":0,`, p.ok("groups", addr).out)
	r = p.run(of("dead", "redrive", "--all", "--yes")...)
	require.EqualValues(t, 1, object(t, result{out: r.out})["ahead"], "it is still to come to it")

	require.Equal(t, "delete-cursor", object(t, p.ok(of("group", "delete", "--yes")...))["action"])
	require.Contains(t, p.ok("groups", addr).errOut, "has no groups")
	require.Equal(t, 3, p.run(of("group", "delete", "--yes")...).code)
}

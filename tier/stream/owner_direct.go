package stream

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/echomq/pipeline/tier"
)

// directCommit is the short way of an owner to a commit that does nothing but set fields of one state: a transaction sets them and moves the
// checkpoint by two commands, where a script would be handed each field and value through Lua, which costs the server more than
// to set them. It is void when anything was written to the state, or of the stream's cursors, since it has seen who owns the cursor, which
// commit was the last and what the state has that it is expected to have. All else, and all that went wrong, goes by the script. Whoever uses
// it holds the owner's ending.
type directCommit struct {
	tx     *tier.Transaction
	denied bool // the user may not do it

	seen     []any // the cursor's owner, epoch and commit, and what the state has; nil: no transaction is open
	state    string
	expected Expected
	until    time.Time // none is opened before
}

const (
	directFields = 32                     // fewer go by a script as fast
	directVoid   = 100 * time.Millisecond // for which others that move cursors of the stream are let be
)

// Expected is what a field of a state has to have before a commit, or it is refused with ErrUnexpected. The zero value is nothing.
type Expected struct{ State, Field, Value string }

// fields are the outputs of endings that only set fields of one state, enough of them; else nil.
func (o *Owner) fields(endings []tier.Ending, expected Expected) []tier.Output {
	if len(endings) != 1 || len(endings[0].Open)+len(endings[0].Dead) > 0 || len(endings[0].Outputs) < directFields {
		return nil
	}
	if _, taken := o.taken[endings[0].Entry]; taken { // it is parked
		return nil
	}
	outputs := endings[0].Outputs
	state := cmp.Or(expected.State, outputs[0].Target)
	for i := range outputs {
		if outputs[i].Kind != tier.OutputHashSet || outputs[i].Target != state {
			return nil
		}
	}
	return outputs
}

// commit makes a commit of such outputs. Ran is false when nothing had an effect, and the script is to be called.
func (d *directCommit) commit(ctx context.Context, c *commitment, outputs []tier.Output) (ran bool, err error) {
	state, err := outputs[0].Key(c.place.addr.Scope)
	if err != nil || d.denied || time.Now().Before(d.until) || !d.opened(ctx, c, state) {
		return false, nil
	}
	var refusal tier.Refusal // of one of the two
	d.seen, ran, err = d.tx.Exec(ctx, func(conn *tier.Conn) int {
		conn.Send(tier.CommandHead(2*len(outputs), "HSET", state))
		for i := range outputs {
			conn.Send(nil, outputs[i].Member, outputs[i].Value)
		}
		conn.Send(tier.AppendCommand(nil, "HSET", c.fence,
			c.field("commit"), c.commit, c.field("at"), c.at, c.field("above"), c.above, c.field("passed"), c.passed))
		return 2
	}, func(conn *tier.Conn, _ int) error {
		_, err := conn.Skip()
		if errors.As(err, &refusal) {
			return nil
		}
		return err
	})
	switch {
	case err == nil && refusal != "": // somebody has changed the user's rights between the two
		err = &tier.Error{Op: "EXEC", Key: state, Class: tier.ErrPartly, Err: refusal}
	case err == nil && !ran:
		d.pause(directVoid)
	case d.seen == nil:
		d.pause(directRest)
	}
	return ran, err
}

// opened opens a transaction that has seen what a commit comes after, unless one has.
func (d *directCommit) opened(ctx context.Context, c *commitment, state string) bool {
	if d.fits(c, state) {
		return true
	}
	seen, err := d.tx.Open(ctx, []string{c.fence, state},
		[]string{"HMGET", c.fence, c.field("owner"), c.field("epoch"), c.field("commit")}, []string{"HGET", state, c.expected.Field})
	if err == nil {
		d.seen, d.state, d.expected = seen, state, c.expected
	}
	if err != nil || !d.fits(c, state) { // the script tells what is wrong
		d.denied = errors.Is(err, tier.ErrPermission)
		d.pause(directRest)
		return false
	}
	return true
}

func (d *directCommit) pause(rest time.Duration) { d.seen, d.until = nil, time.Now().Add(rest) }

func (d *directCommit) fits(c *commitment, state string) bool {
	if len(d.seen) != 2 || d.state != state || d.expected != c.expected {
		return false
	}
	row, _ := d.seen[0].([]any)
	last, err := strconv.ParseUint(c.commit, 10, 64)
	return err == nil && len(row) == 3 && row[0] == c.member && row[1] == c.number && row[2] == strconv.FormatUint(last-1, 10) &&
		(c.expected == Expected{} || d.seen[1] == c.expected.Value)
}

func (c *commitment) field(name string) string { return tier.CursorField(c.name, name) }

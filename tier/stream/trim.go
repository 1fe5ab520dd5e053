package stream

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/tier"
)

// Slices of one call: about a millisecond of the server's time for what everybody is through with, and, of what is held, a few for
// each holder.
const (
	trimSlice = 10_000
	dropSlice = 250
)

// Trim is what Sweep.Trim takes away of what nobody holds.
type Trim struct {
	Keep    int64         // entries that stay, the newest; below 0: no bound
	Age     time.Duration // after which an entry goes; 0: never
	Settled bool          // all that everybody is through with goes
	Exact   bool          // to the last entry; else whole nodes of the server's only
}

// Trimmed is what one call took away.
type Trimmed struct {
	Entries int64
	More    bool  // there may be more to take: call again
	Left    int64 // entries of the log
	// Dropped is from whom entries were taken that it had not settled, and how many: a group, a cursor, or "", the archive.
	Dropped map[string]int64
}

// Trim takes a slice of entries away, of at most 10,000, that the policy lets go and that nobody needs: no group, no cursor,
// nothing that they have parked, and not the archive. The policy is the one that was read, with RetentionOf or Retentions:
// when the scope has another by now, nothing goes.
//
// Errors: ErrSweepLost, ErrPolicyChanged.
func (s *Sweep) Trim(ctx context.Context, stream string, policy Retention, trim Trim) (Trimmed, error) {
	bound := func(n int64, is bool) string {
		if !is {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	return s.cut(ctx, trimScript, stream, policy, []string{
		bound(trim.Keep, trim.Keep >= 0), bound(trim.Age.Milliseconds(), trim.Age > 0), digit(trim.Settled), digit(trim.Exact), strconv.Itoa(trimSlice),
	})
}

// Drop takes the oldest entries of those above the hard cap of the policy, 250 at most, whoever holds them, and counts from whom. Trim
// first, or what nobody holds is taken so slowly, too. Errors as for Trim.
func (s *Sweep) Drop(ctx context.Context, stream string, policy Retention) (Trimmed, error) {
	if policy.HardCap <= 0 {
		return Trimmed{}, fmt.Errorf("%w: no hard cap to drop entries for", ErrBadCall)
	}
	return s.cut(ctx, dropScript, stream, policy, []string{strconv.FormatInt(policy.HardCap, 10), strconv.Itoa(dropSlice)})
}

func digit(is bool) string {
	if is {
		return "1"
	}
	return "0"
}

// cut runs a script that takes entries away, with all groups and cursors declared: those of the last call, which tells of others.
func (s *Sweep) cut(ctx context.Context, script *tier.Script, name string, policy Retention, bounds []string) (Trimmed, error) {
	p, err := newPlace(s.client, tier.Address{Scope: s.scope, Stream: name}.String())
	if err != nil {
		return Trimmed{}, err
	}
	for range looks {
		names, retries := p.holders(s.holders(name))
		args := append([]string{s.owner, s.held(), tier.RetentionField(name), policy.String()}, bounds...)
		m, err := s.client.Run(ctx, tier.Call{
			Script: script,
			Keys:   append([]string{tier.ScopeKey(s.scope), tier.SweeperKey(s.scope), p.addr.LogKey(), p.addr.CursorsKey(), p.addr.RetentionKey()}, retries...),
			Args:   append(args, names...),
		})
		if err != nil {
			return Trimmed{}, err
		}
		reply, changed, err := swept(script, p, m)
		if err != nil {
			return Trimmed{}, err
		}
		list, err := reply[4].AsStrSlice()
		if err != nil {
			return Trimmed{}, err
		}
		if !changed {
			return Trimmed{number(reply[1]), number(reply[2]) > 0, number(reply[3]), counts(list)}, nil
		}
		s.learn(name, list)
	}
	return Trimmed{}, fmt.Errorf("stream: %s %s: %w", script.Name, p.addr, errBusy)
}

// swept reads the reply of a script that the right to trim is for. Changed: nothing was done, since there is another group or cursor,
// or the log has given an id.
func swept(script *tier.Script, p *place, m rueidis.RedisMessage) (reply []rueidis.RedisMessage, changed bool, err error) {
	reply, err = tier.Parts(script.Name, m, 5)
	if err != nil {
		return nil, false, err
	}
	switch code, _ := reply[0].ToString(); code {
	case "fenced":
		return nil, false, fmt.Errorf("%w (%s %s)", ErrSweepLost, script.Name, p.addr)
	case "policy":
		return nil, false, fmt.Errorf("%w (%s)", ErrPolicyChanged, p.addr)
	case "changed":
		return reply, true, nil
	}
	return reply, false, nil
}

// counts reads pairs of a name and a number; nil when there are none.
func counts(flat []string) map[string]int64 {
	var m map[string]int64
	for i := 0; i+1 < len(flat); i += 2 {
		if m == nil {
			m = map[string]int64{}
		}
		m[flat[i]], _ = strconv.ParseInt(flat[i+1], 10, 64)
	}
	return m
}

// holders are groups and cursors as a script is told of them: those first whose retry sets it is told as well. Another program's
// group may have a name that makes no key, and has no keys of ours.
func (p *place) holders(all []string) (names, retries []string) {
	var foreign []string
	for _, name := range all {
		if tier.CheckName("group", name) != nil {
			foreign = append(foreign, name)
			continue
		}
		names, retries = append(names, name), append(retries, p.addr.RetryKey(name))
	}
	return append(names, foreign...), retries
}

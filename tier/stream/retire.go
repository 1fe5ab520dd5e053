package stream

import (
	"context"

	"github.com/echomq/pipeline/tier"
)

// Retired is a group that was deleted, since it was dead, and what it held.
type Retired struct {
	Group           string
	Pending, Parked int64 // entries; what it was not given is not counted
}

// Retire deletes a group that is dead by the policy: there is something for it to do, no consumer was heard of for so long, and it is not
// paused. Its members, should they come back, end with ErrGroupDeleted; its dead letters stay. Of a group without consumers the
// time runs from the first call on. A name that is no group's, or of a group that another program has named so that it makes no key,
// is passed over.
//
// Errors: as for Trim.
func (s *Sweep) Retire(ctx context.Context, stream string, policy Retention, group string) (retired bool, held Retired, err error) {
	if policy.Retire <= 0 || tier.CheckName("group", group) != nil {
		return false, Retired{}, nil
	}
	p, err := newPlace(s.client, tier.Address{Scope: s.scope, Stream: stream}.String())
	if err != nil {
		return false, Retired{}, err
	}
	a := p.addr
	m, err := s.client.Run(ctx, tier.Call{
		Script: retireGroupScript,
		Keys: []string{
			tier.ScopeKey(s.scope), tier.SweeperKey(s.scope), a.LogKey(), a.RetentionKey(),
			a.GroupKey(group), a.OwnersKey(group), a.RetryKey(group), a.OpenKey(group),
		},
		Args: []string{s.owner, s.held(), tier.RetentionField(stream), policy.String(), group, millis(policy.Retire), millis(markTTL)},
	})
	if err != nil {
		return false, Retired{}, err
	}
	reply, _, err := swept(retireGroupScript, p, m)
	if err != nil {
		return false, Retired{}, err
	}
	return number(reply[1]) > 0, Retired{group, number(reply[2]), number(reply[3])}, nil
}

package stream

import (
	"context"

	"github.com/echomq/pipeline/tier"
)

// Pause lets the group hand out nothing more until Resume: its members read nothing, take nothing over and take nothing
// up again that is due, whichever process they are in, and also those that join later. What they hold they finish and
// settle. It outlives every process, and the server's restart if its data does.
//
// The server refuses take-over and what is due at once. Reads go on until a member has learnt of the pause, which it asks
// for every two seconds at most: so within three seconds, as the read that is under way then may wait for one more. A
// member that was frozen, or that did not reach its server meanwhile, may read once more when it is back. Consumers of
// other programs do not ask.
//
// Pausing again changes nothing. The error is tier.ErrNoGroup when there is no such group.
func (g *Group) Pause(ctx context.Context) error { return g.turn(ctx, pauseGroupScript) }

// Resume ends a pause: members that run go on within a second, which is how often they ask. A group that is not paused
// stays as it is. The error is tier.ErrNoGroup when there is no such group.
func (g *Group) Resume(ctx context.Context) error { return g.turn(ctx, resumeGroupScript) }

func (g *Group) turn(ctx context.Context, s *tier.Script) error {
	a := g.place.addr
	m, err := g.place.client.Run(ctx, tier.Call{Script: s, Keys: []string{a.LogKey(), a.GroupKey(g.cfg.Name)}, Args: []string{g.cfg.Name}})
	if err != nil {
		return err
	}
	n, err := m.AsInt64()
	if err == nil && n < 0 {
		return g.absent(s.Name)
	}
	return err
}

package consumer_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// B116: dead letters cannot be written, since the server is full or the user may not. What is readable is settled all the
// same, what is not stays pending and is counted; it is buried when that is possible again.
func TestLettersRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name          string
		refuse, allow func(s *stage)
	}{
		{
			"full",
			func(s *stage) { s.config("maxmemory", "1") },
			func(s *stage) { s.config("maxmemory", "0") },
		},
		{
			"a key of another type",
			func(s *stage) { s.other("SET", s.addr.DeadKey(groupName), "x") },
			func(s *stage) { s.other("DEL", s.addr.DeadKey(groupName)) },
		},
	} {
		for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
			t.Run(tc.name+"/"+string(kind), func(t *testing.T) {
				t.Parallel()
				s := newStage(t, tiertest.Private(t, kind))
				s.lease = time.Second
				s.append(5, 1)
				s.raw("*", "m", "garbage")
				s.append(5, 1)
				require.NoError(t, s.group(s.client).Create(t.Context()))
				source := consumer.Group(s.group(s.client))
				reg := prometheus.NewRegistry()
				seen := newTally()
				p := newPuppet(source)
				p.before = func(_ context.Context, call string) error {
					if call == "read" && p.made("read") == 1 {
						tc.refuse(s)
					}
					return nil
				}
				r := s.run(p, func(_ context.Context, d *consumer.Delivery) error {
					seen.add(d.Position.String())
					return nil
				}, consumer.Config{Registerer: reg})
				seen.reach(t, 10, patience)
				tiertest.Eventually(t, patience, func() (bool, string) {
					return sum(t, reg, "echomq_consumer_commit_failures_total", "", "") >= 2, "not tried again"
				})
				counted(t, reg, 10, "echomq_consumer_settled_entries_total", "", "")
				require.Equal(t, 1, s.pending())
				tc.allow(s)
				tiertest.Eventually(t, patience, func() (bool, string) { return len(s.letters()) == 1, "not buried" })
				s.settled(patience)
				r.stop()
				require.NoError(t, r.wait(patience))
			})
		}
	}
}

func (s *stage) config(name, value string) {
	s.other("CONFIG", "SET", name, value)
}

// other runs a command past package tier.
func (s *stage) other(command ...string) {
	raw, err := tiertest.Raw(s.server)
	require.NoError(s.t, err)
	defer raw.Close()
	require.NoError(s.t, raw.Do(context.Background(), raw.B().Arbitrary(command...).Build()).Error())
}

// What waiting does not help ends Run, with the class of the error, after the handlers have finished.
func TestFatal(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		do   func(s *stage)
		want error
	}{
		{"group deleted", func(s *stage) { require.NoError(s.t, s.group(s.client).Delete(s.t.Context())) }, stream.ErrGroupDeleted},
		{"B30: stream removed", func(s *stage) {
			s.other("HSET", tier.ScopeKey(s.addr.Scope), tier.StreamField(s.addr.Stream), tier.GoneMark+"ORD")
			s.other("DEL", s.addr.LogKey())
		}, stream.ErrStreamRemoved},
		{"key of another type", func(s *stage) {
			s.other("DEL", s.addr.LogKey())
			s.other("SET", s.addr.LogKey(), "x")
		}, tier.ErrWrongType},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, tiertest.Private(t, tiertest.Valkey))
			s.append(1, 1)
			entered, leave := make(chan struct{}), make(chan struct{})
			r := s.run(s.source(), func(context.Context, *consumer.Delivery) error {
				close(entered)
				<-leave
				return nil
			}, consumer.Config{DrainTimeout: time.Hour})
			get(t, entered)
			tc.do(s)
			select {
			case <-r.done:
				require.Fail(t, "it did not wait for the handler")
			case <-time.After(2 * time.Second):
			}
			close(leave)
			require.ErrorIs(t, r.wait(patience), tc.want)
			if tc.want == tier.ErrWrongType {
				s.other("DEL", s.addr.LogKey()) // for the audit
			}
		})
	}
}

// B149: a right is missing. Run ends with an error that names it, and does not go round in circles.
func TestNoRight(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Private(t, tiertest.Valkey))
	s.append(3, 1)
	s.other("ACL", "SETUSER", "default", "-xack")
	r := s.run(s.source(), nothing, consumer.Config{})
	err := r.wait(patience)
	require.ErrorIs(t, err, tier.ErrPermission)
	var unsettled *consumer.UnsettledError
	require.ErrorAs(t, err, &unsettled)
	s.other("ACL", "SETUSER", "default", "+xack")
	require.Equal(t, 3, s.pending())
}

// A group is reset to its head while a consumer is at work: it is refused once, learns what it holds, and goes on from
// there. What was handled before comes again, settled or not.
func TestReset(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		const n = 200
		s := newStage(t, server)
		s.append(n, 1)
		entered, leave := make(chan struct{}, 1), make(chan struct{})
		before, after := newTally(), newTally()
		s.run(s.source(), func(ctx context.Context, d *consumer.Delivery) error {
			if before.add(d.Key); before.distinct() > n/2 {
				select {
				case entered <- struct{}{}:
				default:
				}
				select {
				case <-leave:
				case <-ctx.Done():
					return ctx.Err()
				}
				after.add(d.Key)
			}
			return nil
		}, consumer.Config{Concurrency: 2})
		get(t, entered)
		_, err := s.group(s.client).Reset(t.Context(), stream.Head())
		require.NoError(t, err)
		close(leave)
		after.reach(t, n, patience)
		s.settled(patience)
	})
}

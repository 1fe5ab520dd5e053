package projection_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

// The test binary, started again with this in its environment, is a process that runs a table.
const childEnv = "PROJECTION_TEST_CHILD"

func child(address string) int {
	url, stream, _ := strings.Cut(address, " ")
	err := func() error {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		client, err := tier.Dial(ctx, url, tier.Options{})
		if err != nil {
			return err
		}
		defer client.Close()
		p, err := projection.NewTable(client, projection.TableConfig[tally]{
			Config: projection.Config{Address: stream, Name: "tallies", Lease: lease, Batch: 50}, Fold: add, Codec: codec.JSON[tally](),
		})
		if err != nil {
			return err
		}
		return p.Run(ctx)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (s *stage) spawn() *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+s.server.URL()+" "+s.addr.String())
	cmd.Stderr = os.Stderr
	require.NoError(s.t, cmd.Start())
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// TestKilledAndFrozenOwners: owners are killed, and frozen until another has taken over and then let go on, while messages
// come; each counts once, in order.
func TestKilledAndFrozenOwners(t *testing.T) {
	t.Parallel()
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, tiertest.Shared(t, kind))
			s.append(0, 1, 1, 1)
			members := map[int]*exec.Cmd{}
			for len(members) < 3 {
				cmd := s.spawn()
				members[cmd.Process.Pid] = cmd
			}
			owner := func(not string) *exec.Cmd {
				var pid int
				tiertest.Eventually(t, patience, func() (bool, string) {
					i := s.info(1)
					parts := strings.Split(i.Owner, "-")
					if i.Owner == "" || i.Owner == not || !i.Owned(time.Now()) || len(parts) < 2 {
						return false, i.Owner
					}
					_, err := fmt.Sscan(parts[len(parts)-2], &pid)
					return err == nil && members[pid] != nil, i.Owner
				})
				return members[pid]
			}
			var frozen *exec.Cmd
			for round := range 6 {
				s.append(1+round*3000, 3000, 20, 1+round%2*9)
				was := s.info(1).Owner
				cmd := owner("")
				tiertest.Eventually(t, patience, func() (bool, string) { return s.info(1).Lag < int64(rand.IntN(3000)), "lag" })
				if round%2 == 0 {
					require.NoError(t, cmd.Process.Kill())
					_ = cmd.Wait()
					delete(members, cmd.Process.Pid)
					next := s.spawn()
					members[next.Process.Pid] = next
				} else {
					require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
					frozen = cmd
				}
				owner(was)
				if frozen != nil {
					require.NoError(t, frozen.Process.Signal(syscall.SIGCONT))
					frozen = nil
				}
			}
			s.settled(1)
		})
	}
}

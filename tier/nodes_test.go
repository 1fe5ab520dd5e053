package tier_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

// scope is a new scope, gone with the test: a deployment has 512 numbers.
func (f *fixture) scope() string {
	f.t.Helper()
	return tiertest.AuditedScope(f.t, f.server)
}

func (f *fixture) node(scope string) int {
	f.t.Helper()
	n, err := f.client.ScopeNode(f.ctx, scope)
	require.NoError(f.t, err)
	return n
}

// requireRegistered: hash and registry say the same, both ways.
func (f *fixture) requireRegistered(scope string, number int) {
	f.t.Helper()
	stored, err := f.client.StoredNode(f.ctx, scope)
	require.NoError(f.t, err)
	registered, err := f.client.RegisteredNode(f.ctx, scope)
	require.NoError(f.t, err)
	holder, err := f.client.ScopeOfNode(f.ctx, number)
	require.NoError(f.t, err)
	require.Equal(f.t, []any{number, number, scope}, []any{stored, registered, holder})
}

// TestScopeNode: a scope has one number for good, 0 to 511, for every process; no two have the same.
func TestScopeNode(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		seen := map[int]string{}
		for range 8 {
			scope := f.scope()
			stored, err := f.client.StoredNode(f.ctx, scope)
			require.NoError(t, err)
			require.Equal(t, -1, stored)
			n := f.node(scope)
			require.NotContains(t, seen, n)
			seen[n] = scope
			require.True(t, n >= 0 && n < tier.MaxScopes)
			f.requireRegistered(scope, n)
			require.Equal(t, n, f.node(scope))
			other := setUp(t, s)
			require.Equal(t, n, other.node(scope))
			scopes, err := f.client.Scopes(f.ctx)
			require.NoError(t, err)
			require.Contains(t, scopes, scope)
			require.IsNonDecreasing(t, scopes)
		}
	})
}

// TestScopeNodeHint: the number is the scope's slot modulo 512 where that is free, so that an emptied server gives most
// scopes the same again; else the next free one, around the end.
func TestScopeNodeHint(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Private(t, tiertest.Valkey))
	for i := range 40 {
		scope := fmt.Sprint("s", i)
		hint := tier.Slot(scope) % tier.MaxScopes // 512 divides 16384
		taken := map[int]bool{}
		for {
			holder, err := f.client.ScopeOfNode(f.ctx, (hint+len(taken))%tier.MaxScopes)
			require.NoError(t, err)
			if holder == "" {
				break
			}
			taken[hint+len(taken)] = true
		}
		require.Equal(t, (hint+len(taken))%tier.MaxScopes, f.node(scope))
	}
}

// TestScopeNodeHeals: where the number is lost, it comes back from where it is not: the scope's hash, the registry, or the
// memory of a process.
func TestScopeNodeHeals(t *testing.T) {
	losses := map[string][]string{
		"the hash":     {"hash"},
		"the registry": {"registry"},
		"both":         {"hash", "registry"},
	}
	for name, lost := range losses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
				f := setUp(t, s)
				scope := f.scope()
				hint := tier.Slot(scope) % tier.MaxScopes
				number := -1
				for i := 1; i < tier.MaxScopes && number < 0; i++ { // not the one that a fresh registry would give
					n := (hint + i) % tier.MaxScopes
					if holder, err := f.client.ScopeOfNode(f.ctx, n); err == nil && holder == "" {
						number = n
					}
				}
				f.text("HSET", tier.ScopeKey(scope), "node", strconv.Itoa(number))
				require.Equal(t, number, f.node(scope))
				for _, what := range lost {
					if what == "hash" {
						f.text("DEL", tier.ScopeKey(scope))
					} else {
						f.text("HDEL", tier.NodesKey, "scope:"+scope, "node:"+strconv.Itoa(number))
					}
				}
				require.Equal(t, number, f.node(scope))
				f.requireRegistered(scope, number)
			})
		})
	}
}

// TestScopeNodeConflicts: where two places disagree, nothing is given and nothing changed.
func TestScopeNodeConflicts(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(f *fixture, scope string, number int)
	}{
		{"the hash has another number", func(f *fixture, scope string, number int) {
			f.text("HSET", tier.ScopeKey(scope), "node", strconv.Itoa((number+1)%512))
		}},
		{"the registry has another number", func(f *fixture, scope string, number int) {
			f.text("HSET", tier.NodesKey, "scope:"+scope, strconv.Itoa((number+1)%512))
		}},
		{"the number belongs to another scope", func(f *fixture, scope string, number int) {
			f.text("HDEL", tier.NodesKey, "scope:"+scope)
			f.text("HSET", tier.NodesKey, "node:"+strconv.Itoa(number), "another")
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := setUp(t, tiertest.Private(t, tiertest.Valkey))
			number := f.node("s")
			tt.spoil(f, "s", number)
			before := f.text("DUMP", tier.NodesKey) + f.text("DUMP", tier.ScopeKey("s"))
			for _, f := range []*fixture{f, setUp(t, f.server)} { // one that knows the number, and one that does not
				_, err := f.client.ScopeNode(f.ctx, "s")
				var conflict *tier.NodeConflictError
				require.ErrorAs(t, err, &conflict)
				require.Equal(t, "s", conflict.Scope)
				require.False(t, tier.OutcomeUnknown(err))
			}
			require.Equal(t, before, f.text("DUMP", tier.NodesKey)+f.text("DUMP", tier.ScopeKey("s")))
		})
	}
}

// TestScopeNodeIsNotForgotten: a process that knows another number than the registry does not take the registry's, also
// where the scope has no hash that would say which is right.
func TestScopeNodeIsNotForgotten(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Private(t, tiertest.Valkey))
	number := f.node("s")
	f.text("DEL", tier.ScopeKey("s"))
	f.text("HSET", tier.NodesKey, "scope:s", strconv.Itoa((number+1)%512))
	_, err := f.client.ScopeNode(f.ctx, "s")
	var conflict *tier.NodeConflictError
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, number, conflict.Number)
	require.Equal(t, "0s", f.text("EXISTS", tier.ScopeKey("s")))
}

// TestScopeNodeDamaged: a number that is none is named with its key.
func TestScopeNodeDamaged(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Private(t, tiertest.Valkey))
	for _, bad := range []string{"", "x", "-1", "512", "1e2", "99999999999999999999"} {
		f.text("HSET", tier.ScopeKey("s"), "node", bad)
		_, err := f.client.ScopeNode(f.ctx, "s")
		require.ErrorContains(t, err, tier.ScopeKey("s"), "%q", bad)
		f.text("DEL", tier.ScopeKey("s"))
		f.text("HSET", tier.NodesKey, "scope:s", bad)
		_, err = f.client.RegisteredNode(f.ctx, "s")
		require.ErrorContains(t, err, tier.NodesKey, "%q", bad)
		f.text("HDEL", tier.NodesKey, "scope:s")
	}
}

// TestScopesRunOut: the 513th scope is refused, and says what to do; those that have a number keep it.
func TestScopesRunOut(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Private(t, tiertest.Valkey))
	first := f.node("s0")
	for i := range tier.MaxScopes - 1 {
		f.node(fmt.Sprint("x", i))
	}
	_, err := f.client.ScopeNode(f.ctx, "one-too-many")
	require.ErrorIs(t, err, tier.ErrScopesExhausted)
	require.Equal(t, "0s", f.text("EXISTS", tier.ScopeKey("one-too-many")))
	require.Equal(t, first, f.node("s0"))
	scopes, err := f.client.Scopes(f.ctx)
	require.NoError(t, err)
	require.Len(t, scopes, tier.MaxScopes)
	numbers := map[int]bool{}
	for _, s := range scopes {
		n, err := f.client.RegisteredNode(f.ctx, s)
		require.NoError(t, err)
		numbers[n] = true
	}
	require.Len(t, numbers, tier.MaxScopes)
}

// TestScopeNodeAtOnce: many processes that ask for the same new scopes get the same numbers, and different scopes
// different ones.
func TestScopeNodeAtOnce(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Private(t, tiertest.Valkey))
	var mu sync.Mutex
	got := map[string]map[int]bool{}
	var wg sync.WaitGroup
	for range 6 {
		c := tiertest.Dial(t, f.server)
		wg.Go(func() {
			for i := range 30 {
				scope := fmt.Sprint("s", i)
				n, err := c.ScopeNode(f.ctx, scope)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if got[scope] == nil {
					got[scope] = map[int]bool{}
				}
				got[scope][n] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	numbers := map[int]bool{}
	for scope, ns := range got {
		require.Len(t, ns, 1, scope)
		for n := range ns {
			require.False(t, numbers[n])
			numbers[n] = true
		}
	}
}

package tier

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxScopes is how many scopes a deployment can have: node numbers 0 to 511.
const MaxScopes = 512

var (
	//go:embed lua/claim_scope.lua
	claimScopeSource string
	claimScope       = NewScript("claim_scope", claimScopeSource)
)

// ErrScopesExhausted says that all node numbers for scopes are given out.
var ErrScopesExhausted = errors.New("tier: all 512 scopes of this deployment are in use: delete a scope, or put more streams into one")

// NodeConflictError says that the scope's own hash and the deployment's registry disagree about its node number. Ids
// would not be unique, so nothing is written.
type NodeConflictError struct {
	Scope      string
	Number     int    // what the scope's hash, or this process, holds
	Registered string // the registry's number for the scope, or the other scope that holds Number
}

func (e *NodeConflictError) Error() string {
	return fmt.Sprintf("tier: scope %s has node number %d, the registry says %s: run 'pipeline check %s' and restore {emq}:nodes from a backup", e.Scope, e.Number, e.Registered, e.Scope)
}

// ScopeNode returns the node number of a scope, and gives it one when it has none. The number stands in the scope's hash
// and in the registry; either heals the other, and a process that has seen it proposes it to a server that lost both.
//
// Errors: ErrName, *NodeConflictError, ErrScopesExhausted, *VersionError.
func (c *Client) ScopeNode(ctx context.Context, scope string) (int, error) {
	if err := CheckName("scope", scope); err != nil {
		return 0, err
	}
	// A server that lost its data lost the fence too; whoever declares again claims it again.
	if err := c.reclaimFence(ctx); err != nil {
		return 0, err
	}
	known, err := c.StoredNode(ctx, scope)
	if err != nil {
		return 0, err
	}
	if known < 0 {
		known = c.remembered(scope)
	}
	number, err := c.registerScope(ctx, scope, known)
	if err != nil {
		return 0, err
	}
	key := ScopeKey(scope)
	if _, err := c.Do(ctx, key, c.B().Hsetnx().Key(key).Field(NodeField).Value(strconv.Itoa(number)).Build()); err != nil {
		return 0, err
	}
	stored, err := c.StoredNode(ctx, scope)
	if err != nil {
		return 0, err
	}
	if stored != number {
		return 0, &NodeConflictError{Scope: scope, Number: stored, Registered: strconv.Itoa(number)}
	}
	c.remember(scope, number)
	return number, nil
}

// StoredNode is the number in the scope's own hash, -1 when there is none.
func (c *Client) StoredNode(ctx context.Context, scope string) (int, error) {
	if err := CheckName("scope", scope); err != nil {
		return -1, err
	}
	return c.number(ctx, ScopeKey(scope), NodeField)
}

// RegisteredNode is the number that the deployment's registry has for a scope, -1 when there is none.
func (c *Client) RegisteredNode(ctx context.Context, scope string) (int, error) {
	if err := CheckName("scope", scope); err != nil {
		return -1, err
	}
	return c.number(ctx, NodesKey, ScopeNumberField(scope))
}

// ScopeOfNode is the scope that holds a node number, empty when none does: numbers from MaxScopes on are those of processes that mint ids.
func (c *Client) ScopeOfNode(ctx context.Context, number int) (string, error) {
	if number >= MaxScopes {
		return "", nil
	}
	m, err := c.Do(ctx, NodesKey, c.B().Hget().Key(NodesKey).Field(NumberField(number)).Build())
	if err != nil {
		return "", ignoreNil(err)
	}
	return m.ToString()
}

// Scopes lists the deployment's scopes, sorted by name.
func (c *Client) Scopes(ctx context.Context) ([]string, error) {
	var scopes []string
	err := c.ScanHash(ctx, NodesKey, func(field, _ string) {
		if scope, ok := strings.CutPrefix(field, ScopeNumberField("")); ok {
			scopes = append(scopes, scope)
		}
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(scopes)
	return slices.Compact(scopes), nil
}

func (c *Client) number(ctx context.Context, key, field string) (int, error) {
	m, err := c.Do(ctx, key, c.B().Hget().Key(key).Field(field).Build())
	if err != nil {
		return -1, ignoreNil(err)
	}
	text, err := m.ToString()
	if err != nil {
		return -1, Wrap("HGET", key, err)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n >= MaxScopes {
		return -1, fmt.Errorf("tier: %s: field %s holds %.32q, not a node number: run 'pipeline check'", key, field, text)
	}
	return n, nil
}

func (c *Client) registerScope(ctx context.Context, scope string, known int) (int, error) {
	hint := int(crc16(scope)) % MaxScopes
	m, err := c.Run(ctx, Call{
		Script: claimScope,
		Keys:   []string{NodesKey},
		Args:   []string{scope, strconv.Itoa(known), strconv.Itoa(hint)},
	})
	if err != nil {
		return 0, err
	}
	reply, err := Texts("claim_scope", m, 2)
	if err != nil {
		return 0, err
	}
	switch reply[0] {
	case "ok":
		return strconv.Atoi(reply[1])
	case "full":
		return 0, ErrScopesExhausted
	default:
		return 0, &NodeConflictError{Scope: scope, Number: known, Registered: reply[1]}
	}
}

func (c *Client) remembered(scope string) int {
	c.numbersMu.Lock()
	defer c.numbersMu.Unlock()
	if n, ok := c.numbers[scope]; ok {
		return n
	}
	return -1
}

func (c *Client) remember(scope string, number int) {
	c.numbersMu.Lock()
	defer c.numbersMu.Unlock()
	c.numbers[scope] = number
}

func ignoreNil(err error) error {
	if isNil(err) {
		return nil
	}
	return err
}

package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Finding is one broken invariant.
type Finding struct {
	Key    string
	Broken string // what does not hold
}

func (f *Finding) Error() string { return f.Key + ": " + f.Broken }

// Check audits a scope: that its number and its brands say the same wherever they stand, that keys hold their types, and
// that groups and their members are recorded. The error joins a *Finding for each broken invariant, or is that of the
// server. Nothing is changed.
func Check(ctx context.Context, client *tier.Client, scope string) error {
	if err := tier.CheckName("scope", scope); err != nil {
		return err
	}
	c := &check{client: client, scope: scope}
	if _, err := c.isType(ctx, tier.ScopeKey(scope), "hash"); err != nil || len(c.findings) > 0 {
		return errors.Join(append(c.findings, err)...)
	}
	var err error
	if c.row, err = scopeRow(ctx, client, scope); err != nil {
		return err
	}
	if err := errors.Join(c.numbers(ctx), c.streams(ctx)); err != nil {
		return err
	}
	c.brands()
	return errors.Join(c.findings...)
}

type check struct {
	client   *tier.Client
	scope    string
	row      map[string]string
	findings []error
}

func (c *check) broken(key, format string, args ...any) {
	c.findings = append(c.findings, &Finding{Key: key, Broken: fmt.Sprintf(format, args...)})
}

// numbers compares the scope's node number with the registry, both ways.
func (c *check) numbers(ctx context.Context) error {
	registered, err := c.client.RegisteredNode(ctx, c.scope)
	if err != nil {
		return err
	}
	stored, ok := c.row[tier.NodeField]
	switch {
	case !ok && len(c.row) == 0 && registered < 0:
		return nil // no such scope, which is not a fault
	case !ok && len(c.row) > 0:
		c.broken(tier.ScopeKey(c.scope), "has streams and no node number")
		return nil
	case ok && stored != strconv.Itoa(registered):
		c.broken(tier.NodesKey, "says %d for scope %s, whose own hash says %s", registered, c.scope, stored)
		return nil
	}
	holder, err := c.client.ScopeOfNode(ctx, registered)
	if err == nil && holder != c.scope {
		c.broken(tier.NodesKey, "number %d belongs to %q and to %q", registered, c.scope, holder)
	}
	return err
}

// brands compares the two directions of the brand table.
func (c *check) brands() {
	key := tier.ScopeKey(c.scope)
	for field, value := range c.row {
		if name, ok := tier.StreamOfField(field); ok {
			declared, err := parseDeclaration(value)
			if err != nil {
				c.broken(key, "stream %s: %v", name, err)
			} else if owner := c.row[tier.BrandField(string(declared.brand))]; owner != name {
				c.broken(key, "stream %s has brand %s, which belongs to %q", name, declared.brand, owner)
			}
		}
		if brand, ok := strings.CutPrefix(field, tier.BrandField("")); ok {
			if declared, _ := parseDeclaration(c.row[tier.StreamField(value)]); string(declared.brand) != brand {
				c.broken(key, "brand %s belongs to stream %s, which has another", brand, value)
			}
		}
	}
}

func (c *check) streams(ctx context.Context) error {
	for field, value := range c.row {
		name, ok := tier.StreamOfField(field)
		if !ok {
			continue
		}
		addr := tier.Address{Scope: c.scope, Stream: name}
		ok, err := c.isType(ctx, addr.LogKey(), "stream")
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if strings.HasPrefix(value, tier.GoneMark) {
			c.broken(addr.LogKey(), "is there, though the stream was removed")
		}
		if err := c.groups(ctx, addr); err != nil {
			return err
		}
	}
	return nil
}

func (c *check) groups(ctx context.Context, addr tier.Address) error {
	key := addr.LogKey()
	m, err := c.client.Do(ctx, key, c.client.B().XinfoGroups().Key(key).Build())
	if err != nil {
		return err
	}
	rows, err := m.ToArray()
	if err != nil {
		return tier.Wrap("XINFO", key, err)
	}
	for i := range rows {
		row, err := rows[i].AsMap()
		if err != nil {
			return tier.Wrap("XINFO", key, err)
		}
		field := row["name"]
		name, err := field.ToString()
		if err != nil {
			return tier.Wrap("XINFO", key, err)
		}
		if err := c.group(ctx, addr, name); err != nil {
			return err
		}
	}
	return nil
}

// isType reports whether a key is there with the right type; a missing one is no fault.
func (c *check) isType(ctx context.Context, key, want string) (bool, error) {
	m, err := c.client.Do(ctx, key, c.client.B().Type().Key(key).Build())
	if err != nil {
		return false, err
	}
	got, err := m.ToString()
	if err == nil && got != want && got != "none" {
		c.broken(key, "holds a %s, not a %s", got, want)
	}
	return got == want, err
}

func (c *check) group(ctx context.Context, addr tier.Address, name string) error {
	if _, err := c.isType(ctx, addr.DeadKey(name), "stream"); err != nil {
		return err
	}
	for _, part := range []struct {
		key   string
		check func(key string, row map[string]string)
	}{{addr.GroupKey(name), c.terms}, {addr.OwnersKey(name), c.owners}} {
		ok, err := c.isType(ctx, part.key, "hash")
		if err != nil {
			return err
		}
		if !ok {
			continue // of another program, or nobody ever joined
		}
		m, err := c.client.Do(ctx, part.key, c.client.B().Hgetall().Key(part.key).Build())
		if err != nil {
			return err
		}
		row, err := m.AsStrMap()
		if err != nil {
			return tier.Wrap("HGETALL", part.key, err)
		}
		part.check(part.key, row)
	}
	return nil
}

// terms are what a group's members agree on.
func (c *check) terms(key string, row map[string]string) {
	if _, deleted := row[tier.DeletedField]; deleted {
		return
	}
	lease, ok := row[tier.LeaseField] // of another program's group that was reset, there is none
	if ms, err := strconv.ParseInt(lease, 10, 64); ok && (err != nil || ms < MinLease.Milliseconds()) {
		c.broken(key, "has the lease %.32q, not milliseconds", lease)
	}
	if _, err := codec.ParseEntryID(row[tier.StartField]); err != nil {
		c.broken(key, "starts at %.64q, which is no address", row[tier.StartField])
	}
}

func (c *check) owners(key string, owners map[string]string) {
	for field, value := range owners {
		member, beat := strings.CutSuffix(field, tier.BeatSuffix)
		if _, err := strconv.ParseUint(value, 10, 64); err != nil {
			c.broken(key, "%s holds %.32q, not a number", field, value)
		}
		if _, ok := owners[member]; beat && !ok {
			c.broken(key, "%s beats without a number", member)
		}
		if _, ok := owners[tier.BeatField(field)]; !beat && !ok {
			c.broken(key, "%s has a number and never beat", field)
		}
	}
}

package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/tier"
)

// Check audits a scope: that its number, its brands and its partitions say the same wherever they stand, that keys hold their
// types, that indexes of keyed streams have each version once, that groups and their members are recorded, and that cursors
// stand where they can. The error joins a *tier.Finding for each broken invariant, or is that of the server. Nothing is changed. One hash at a time is in memory, about 300 bytes for each field.
func Check(ctx context.Context, client *tier.Client, scope string) error {
	if err := tier.CheckName("scope", scope); err != nil {
		return err
	}
	c := &check{client: client, scope: scope}
	if _, err := c.areType(ctx, []string{tier.ScopeKey(scope)}, "hash"); err != nil || len(c.findings) > 0 {
		return errors.Join(append(c.findings, err)...)
	}
	var err error
	if c.row, err = hashRow(ctx, client, tier.ScopeKey(scope)); err != nil {
		return err
	}
	if err := errors.Join(c.numbers(ctx), c.partitions(ctx), c.streams(ctx)); err != nil {
		return err
	}
	c.brands()
	c.retentions()
	if c.more > 0 {
		c.findings = append(c.findings, &tier.Finding{Key: tier.ScopeKey(scope), Broken: fmt.Sprintf("and %d findings more", c.more)})
	}
	return errors.Join(c.findings...)
}

type check struct {
	client   *tier.Client
	scope    string
	row      map[string]string
	findings []error
	more     int // findings beyond maxFindings
}

// maxFindings is how many findings are told one by one.
const maxFindings = 1000

// hashRow reads a whole hash, by pages.
func hashRow(ctx context.Context, client *tier.Client, key string) (map[string]string, error) {
	row := map[string]string{}
	err := client.ScanHash(ctx, key, func(field, value string) { row[field] = value })
	return row, err
}

func (c *check) broken(key, format string, args ...any) {
	if len(c.findings) == maxFindings {
		c.more++
		return
	}
	c.findings = append(c.findings, &tier.Finding{Key: key, Broken: fmt.Sprintf(format, args...)})
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
		c.broken(tier.NodesKey, "has number %d for scope %q, and holds it for %q", registered, c.scope, holder)
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

// retentions reads the policies, and asks whose they are.
func (c *check) retentions() {
	key := tier.ScopeKey(c.scope)
	for field, value := range c.row {
		name, ok := strings.CutPrefix(field, tier.RetentionField(""))
		if !ok {
			continue
		}
		if declared := c.row[tier.StreamField(name)]; declared == "" || strings.HasPrefix(declared, tier.GoneMark) {
			c.broken(key, "has the field %.160q, a policy of retention for a stream that there is not", field)
		}
		if _, err := ParseRetention(value); err != nil {
			c.broken(key, "stream %.128s: the policy of retention: %v", name, err)
		}
	}
}

func (c *check) streams(ctx context.Context) error {
	var names []string
	for field := range c.row {
		name, ok := tier.StreamOfField(field)
		if !ok {
			continue
		}
		if err := tier.CheckName("stream", name); err != nil {
			c.broken(tier.ScopeKey(c.scope), "has the field %.80q: %v", field, err)
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	for chunk := range slices.Chunk(names, askChunk) {
		logs, cursors := make([]string, len(chunk)), make([]string, len(chunk))
		for i, name := range chunk {
			addr := tier.Address{Scope: c.scope, Stream: name}
			logs[i], cursors[i] = addr.LogKey(), addr.CursorsKey()
		}
		hasLog, err := c.areType(ctx, logs, "stream")
		if err != nil {
			return err
		}
		hasCursors, err := c.areType(ctx, cursors, "hash")
		if err != nil {
			return err
		}
		for i, name := range chunk {
			if err := c.stream(ctx, name, hasLog[i], hasCursors[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// stream audits one stream: its indexes, its cursors and its groups.
func (c *check) stream(ctx context.Context, name string, hasLog, hasCursors bool) error {
	addr, declared := tier.Address{Scope: c.scope, Stream: name}, c.row[tier.StreamField(name)]
	if d, _ := parseDeclaration(declared); d.kind == keyed && !d.removed {
		if err := c.indexes(ctx, addr); err != nil {
			return err
		}
	}
	if hasCursors {
		if err := c.cursors(ctx, addr, hasLog); err != nil {
			return err
		}
	}
	if !hasLog {
		return nil
	}
	if strings.HasPrefix(declared, tier.GoneMark) {
		c.broken(addr.LogKey(), "is there, though the stream was removed")
	}
	return c.groups(ctx, addr)
}

// areType reports which keys are there with the right type; a missing one is no fault.
func (c *check) areType(ctx context.Context, keys []string, want string) ([]bool, error) {
	cmds := make([]rueidis.Completed, len(keys))
	for i, key := range keys {
		cmds[i] = c.client.B().Type().Key(key).Build()
	}
	results, err := c.client.DoMulti(ctx, keys[0], cmds...)
	if err != nil {
		return nil, err
	}
	there := make([]bool, len(keys))
	for i, key := range keys {
		got, err := results[i].ToString()
		if err != nil {
			return nil, tier.Wrap("TYPE", key, err)
		}
		if there[i] = got == want; !there[i] && got != "none" {
			c.broken(key, "holds a %s, not a %s", got, want)
		}
	}
	return there, nil
}

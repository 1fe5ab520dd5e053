package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Finding is one broken invariant.
type Finding struct {
	Key    string
	Broken string // what does not hold
}

func (f *Finding) Error() string { return f.Key + ": " + f.Broken }

// Check audits a scope: that its number, its brands and its partitions say the same wherever they stand, that keys hold their
// types, that indexes of keyed streams have each version once, and that groups and their members are recorded. The error joins a
// *Finding for each broken invariant, or is that of the
// server. Nothing is changed. One hash at a time is in memory, about 300 bytes for each field.
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
	if c.more > 0 {
		c.findings = append(c.findings, &Finding{Key: tier.ScopeKey(scope), Broken: fmt.Sprintf("and %d findings more", c.more)})
	}
	return errors.Join(c.findings...)
}

// Findings takes an error of Check apart; there are none when it is another error.
func Findings(err error) (all []*Finding) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			all = append(all, Findings(e)...)
		}
		return all
	}
	var f *Finding
	if errors.As(err, &f) {
		all = append(all, f)
	}
	return all
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
		keys := make([]string, len(chunk))
		for i, name := range chunk {
			keys[i] = tier.Address{Scope: c.scope, Stream: name}.LogKey()
		}
		there, err := c.areType(ctx, keys, "stream")
		if err != nil {
			return err
		}
		for i, name := range chunk {
			if d, _ := parseDeclaration(c.row[tier.StreamField(name)]); d.kind == keyed && !d.removed {
				if err := c.indexes(ctx, tier.Address{Scope: c.scope, Stream: name}); err != nil {
					return err
				}
			}
			if !there[i] {
				continue
			}
			if strings.HasPrefix(c.row[tier.StreamField(name)], tier.GoneMark) {
				c.broken(keys[i], "is there, though the stream was removed")
			}
			if err := c.groups(ctx, tier.Address{Scope: c.scope, Stream: name}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *check) groups(ctx context.Context, addr tier.Address) error {
	rows, err := groupRows(ctx, c.client, addr)
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(rows, askChunk) {
		if err := c.groupChunk(ctx, addr, chunk); err != nil {
			return err
		}
	}
	return nil
}

func (c *check) groupChunk(ctx context.Context, addr tier.Address, groups []groupRow) error {
	var letters, hashes, retries, opens []string
	for _, g := range groups {
		letters = append(letters, addr.DeadKey(g.name))
		retries, opens = append(retries, addr.RetryKey(g.name)), append(opens, addr.OpenKey(g.name))
		hashes = append(hashes, addr.GroupKey(g.name), addr.OwnersKey(g.name))
	}
	if _, err := c.areType(ctx, letters, "stream"); err != nil {
		return err
	}
	there, err := c.areType(ctx, hashes, "hash")
	if err != nil {
		return err
	}
	for i, key := range hashes {
		if !there[i] {
			continue // of another program, or nobody ever joined
		}
		row, err := hashRow(ctx, c.client, key)
		if err != nil {
			return err
		}
		if i%2 == 0 {
			c.terms(key, row)
		} else {
			c.owners(key, row)
		}
	}
	parked, err := c.areType(ctx, retries, "zset")
	if err != nil {
		return err
	}
	rows, err := c.areType(ctx, opens, "hash")
	if err != nil {
		return err
	}
	for i := range groups {
		if !parked[i] {
			continue
		}
		if !rows[i] {
			c.broken(retries[i], "has parked entries, and nothing says what is open of them")
		} else if err := c.parked(ctx, retries[i], opens[i]); err != nil {
			return err
		}
	}
	return nil
}

// parked checks that of each parked entry something is open.
func (c *check) parked(ctx context.Context, retry, open string) error {
	for from := int64(0); ; from += askChunk {
		m, err := c.client.Do(ctx, retry, c.client.B().Zrange().Key(retry).Min(strconv.FormatInt(from, 10)).Max(strconv.FormatInt(from+askChunk-1, 10)).Build())
		if err != nil {
			return err
		}
		entries, err := m.AsStrSlice()
		if err != nil || len(entries) == 0 {
			return err
		}
		if m, err = c.client.Do(ctx, open, c.client.B().Hmget().Key(open).Field(entries...).Build()); err != nil {
			return err
		}
		rows, err := tier.Texts("HMGET "+open, m, len(entries))
		if err != nil {
			return err
		}
		for i, e := range entries {
			_, whole := strconv.ParseUint(rows[i], 10, 64) // of a redriven entry all is open
			if id, err := codec.ParseEntryID(e); err != nil || whole != nil && len(openOf(rows[i], 0, 0)) == 0 {
				c.broken(open, "entry %.64q (%s) is parked, and its row %.64q says of nothing that it is open", e, id, rows[i])
			}
		}
	}
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

// terms are what a group's members agree on.
func (c *check) terms(key string, row map[string]string) {
	if _, deleted := row[tier.DeletedField]; deleted {
		return
	}
	lease, ok := row[tier.LeaseField] // of another program's group that was reset, there is none
	if ms, err := strconv.ParseInt(lease, 10, 64); ok && (err != nil || ms < MinLease.Milliseconds()) {
		c.broken(key, "has the lease %.32q, not milliseconds from %d on", lease, MinLease.Milliseconds())
	}
	start, begins := row[tier.StartField]
	if !begins && !ok {
		return // another program's group that was paused: nothing else is known of it
	}
	if _, err := codec.ParseEntryID(start); err != nil {
		c.broken(key, "starts at %.64q, which is no address", start)
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

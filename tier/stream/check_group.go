package stream

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

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
	var hashes []string
	var all []audited
	for _, g := range groups {
		hashes = append(hashes, addr.GroupKey(g.name), addr.OwnersKey(g.name))
		all = append(all, audited{addr: addr, name: g.name})
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
		} else if err := c.owners(ctx, key, row); err != nil {
			return err
		}
	}
	return c.failed(ctx, all)
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
	if since, is := row[tier.PausedField]; is {
		if ms, err := strconv.ParseInt(since, 10, 64); err != nil || ms <= 0 {
			c.broken(key, "is paused since %.32q, not unix milliseconds: it is paused all the same", since)
		}
	}
	start, begins := row[tier.StartField]
	if !begins && !ok {
		return // another program's group that was paused: nothing else is known of it
	}
	if _, err := codec.ParseEntryID(start); err != nil {
		c.broken(key, "starts at %.64q, which is no address", start)
	}
}

// owners checks numbers and beats. A large hash is read by pages, between which members come and go: what looks wrong is
// asked for once more, both fields at a time.
func (c *check) owners(ctx context.Context, key string, owners map[string]string) error {
	members := map[string]bool{}
	for field := range owners {
		members[strings.TrimSuffix(field, tier.BeatSuffix)] = true
	}
	for member := range members {
		number, numbered := owners[member]
		beat, beats := owners[tier.BeatField(member)]
		if numbered && beats && isNumber(number) && isNumber(beat) {
			continue
		}
		m, err := c.client.Do(ctx, key, c.client.B().Hmget().Key(key).Field(member, tier.BeatField(member)).Build())
		if err != nil {
			return err
		}
		now, err := tier.Texts("HMGET "+key, m, 2)
		if err != nil {
			return err
		}
		switch number, beat = now[0], now[1]; {
		case number == "" && beat == "": // it has left
		case number == "":
			c.broken(key, "%s beats without a number", member)
		case beat == "":
			c.broken(key, "%s has a number and never beat", member)
		case !isNumber(number):
			c.broken(key, "%s holds %.32q, not a number", member, number)
		case !isNumber(beat):
			c.broken(key, "%s holds %.32q, not a number", tier.BeatField(member), beat)
		}
	}
	return nil
}

func isNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 64)
	return err == nil
}

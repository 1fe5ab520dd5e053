package tier

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// LiveVersion is the version of a projection that readers are to use, and the stream that it is made from.
type LiveVersion struct {
	Stream  string
	Version int
}

func (v LiveVersion) String() string { return v.Stream + " " + strconv.Itoa(v.Version) }

// LiveProjections are the projections of a scope, by name.
func (c *Client) LiveProjections(ctx context.Context, scope string) (map[string]LiveVersion, error) {
	key := ProjectionsKey(scope)
	m, err := c.Do(ctx, key, c.B().Hgetall().Key(key).Build())
	if err != nil {
		return nil, err
	}
	fields, err := m.AsStrMap()
	if err != nil {
		return nil, Wrap("HGETALL", key, err)
	}
	live := make(map[string]LiveVersion, len(fields))
	for name, text := range fields {
		if live[name], err = liveVersion(key, text); err != nil {
			return nil, err
		}
	}
	return live, nil
}

func liveVersion(key, text string) (LiveVersion, error) {
	stream, number, _ := strings.Cut(text, " ")
	version, err := strconv.Atoi(number)
	if err != nil || version < 1 || CheckName("stream", stream) != nil {
		return LiveVersion{}, fmt.Errorf("tier: %s holds %.64q, which is no stream and version: set it with 'pipeline projections switch'", key, text)
	}
	return LiveVersion{stream, version}, nil
}

// ClaimProjection makes a version the live one of a projection that has none yet, and returns the one that it has.
func (c *Client) ClaimProjection(ctx context.Context, scope, name string, v LiveVersion) (LiveVersion, error) {
	key := ProjectionsKey(scope)
	results, err := c.DoMulti(ctx, key,
		c.B().Hsetnx().Key(key).Field(name).Value(v.String()).Build(), c.B().Hget().Key(key).Field(name).Build())
	if err != nil {
		return LiveVersion{}, err
	}
	text, err := results[1].ToString()
	if err != nil {
		return LiveVersion{}, Wrap("HGET", key, err)
	}
	return liveVersion(key, text)
}

// SwitchProjection makes a version the live one.
func (c *Client) SwitchProjection(ctx context.Context, scope, name string, v LiveVersion) error {
	key := ProjectionsKey(scope)
	_, err := c.Do(ctx, key, c.B().Hset().Key(key).FieldValue().FieldValue(name, v.String()).Build())
	return err
}

// ForgetProjection leaves a projection without a live version.
func (c *Client) ForgetProjection(ctx context.Context, scope, name string) error {
	key := ProjectionsKey(scope)
	_, err := c.Do(ctx, key, c.B().Hdel().Key(key).Field(name).Build())
	return err
}

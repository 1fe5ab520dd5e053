package tier

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// ErrServerTooOld says that the server lacks what the pipeline is built on.
var ErrServerTooOld = errors.New("tier: the server is too old: Valkey 7.2 or Redis 7.0 is the least")

// Server is what the probe found out about the node that answered.
type Server struct {
	Name      string // "valkey" or "redis"
	Version   string // "8.0.1"
	Cluster   bool
	Eviction  string // maxmemory-policy
	AppendLog bool   // an append-only file is kept
}

// Server is what the probe found when the client connected.
func (c *Client) Server() Server { return c.server }

// StillClock reports whether all commands of a transaction see the same time, as they do on Valkey and on Redis from 7.2 on.
func (s Server) StillClock() bool {
	var major, minor int
	_, err := fmt.Sscanf(s.Version, "%d.%d", &major, &minor)
	return err == nil && (s.Name == "valkey" || major > 7 || major == 7 && minor >= 2)
}

// andKeep: a restart forgets what CONFIG SET has set.
const andKeep = ", then CONFIG REWRITE, or write it into the configuration file: a restart forgets it otherwise"

// Warnings are settings under which data may go missing, each with what to do.
func (s Server) Warnings() []string {
	var w []string
	if s.Eviction != "" && s.Eviction != "noeviction" {
		w = append(w, fmt.Sprintf("maxmemory-policy is %s: the server may drop streams and producer keys when it is full; CONFIG SET maxmemory-policy noeviction%s", s.Eviction, andKeep))
	}
	if !s.AppendLog {
		w = append(w, "no append-only file: what was written since the last snapshot is lost with the server; CONFIG SET appendonly yes"+andKeep)
	}
	return w
}

func (c *Client) probe(ctx context.Context) error {
	text, err := c.info(ctx)
	if err = Wrap("INFO", "", err); errors.Is(err, ErrPermission) {
		return nil // a user with least rights may not look; the fence and the scripts will tell
	}
	if err != nil {
		return err
	}
	if c.server, err = parseInfo(text); err != nil {
		return err
	}
	for _, w := range c.server.Warnings() {
		c.opts.Logger.Warn("server setting", "advice", w)
	}
	return nil
}

// info asks any node. Of a cluster, the library may pick one that is down, though the others serve all slots.
func (c *Client) info(ctx context.Context) (text string, err error) {
	ask := func(node rueidis.Client) bool {
		text, err = node.Do(ctx, node.B().Info().Build()).ToString()
		_, answered := rueidis.IsRedisErr(err)
		return err == nil || answered
	}
	if ask(c.pipe) {
		return text, err
	}
	for _, node := range c.pipe.Nodes() {
		if ask(node) {
			break
		}
	}
	return text, err
}

// parseInfo reads INFO's "name:value" lines.
func parseInfo(text string) (Server, error) {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	s := Server{
		Name:      "redis",
		Version:   info["redis_version"],
		Cluster:   info["cluster_enabled"] == "1",
		Eviction:  info["maxmemory_policy"],
		AppendLog: info["aof_enabled"] == "1",
	}
	if v := info["valkey_version"]; v != "" {
		s.Name, s.Version = "valkey", v
	}
	major, _, _ := strings.Cut(s.Version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < 7 {
		return s, fmt.Errorf("%w: this one says %s %q", ErrServerTooOld, s.Name, s.Version)
	}
	return s, nil
}

func isNil(err error) bool { return rueidis.IsRedisNil(err) }

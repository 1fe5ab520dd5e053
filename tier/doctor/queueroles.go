package doctor

import (
	"strings"

	"github.com/echomq/pipeline/tier"
)

// queueRoles are what each role of a queue needs. All keys of a queue are matched by one pattern, so a key of each type stands for them;
// beside them are the stream of its events, and the channel on which workers are told.
var queueRoles = map[string][]need{
	"enqueuer": jobNeeds("nodes "+jobRuns, `get set time del hget hmget hset hdel hexists hlen hgetall hrandfield zadd zrange zcard zmscore llen rpush lindex blmove
		exists xadd xsetid xdel xlen xrange xpending xgroup|create`),
	"worker": append(jobNeeds(jobRuns, `get time exists del pexpire hget hmget hset hdel hexists hlen hgetall hincrby
		zadd zrem zrange zrangebyscore zscore llen rpush blpop xadd xsetid xdel xack xclaim xautoclaim xlen xrange xpending xreadgroup
		xgroup|create xgroup|delconsumer xinfo|consumers`), on("channel", "SSUBSCRIBE")),
	"scheduler": jobNeeds("nodes "+jobRuns, `get time hget hmget hset hdel hexists hlen hkeys zadd zrem zrange zrangebyscore zcard zscore llen rpush xadd xsetid`),
	"queue-operator": append(jobNeeds("nodes scope "+jobRuns, `get time exists del pexpire unlink type scan hget hmget hset hsetnx hdel hexists hincrby hlen hgetall hkeys hscan
		zadd zrem zrange zrangebyscore zcard zcount zscore zscan llen rpush xadd xsetid xdel xack xautoclaim xlen xrange xpending xreadgroup
		xgroup|create xinfo|groups`), on("channel", "SPUBLISH", "m")),
}

// QueueRoles are the names of the roles in a queue. What a user lacks of them is asked when one is named.
func QueueRoles() []string { return []string{"enqueuer", "worker", "scheduler", "queue-operator"} }

// jobRuns are keys on which scripts of queues are run.
const jobRuns = "jobs due lane wake events"

// jobNeeds are scripts on keys, and commands.
func jobNeeds(keys, commands string) []need {
	needs := append(runs(strings.Fields(keys)...), on("version", "GET"))
	for _, command := range strings.Fields(commands) {
		n, ok := jobCommands[command]
		if !ok {
			panic("doctor: no need for " + command)
		}
		needs = append(needs, n)
	}
	return append(needs, on("events", "XADD", "*", "f", "v"))
}

// jobCommands are the commands of queues, each on a key of the kind that it is for.
var jobCommands = map[string]need{
	"time": clock, "scan": {command: "SCAN", words: func(string) []string { return []string{"SCAN", "0"} }},
	"get": on("calls", "GET"), "set": on("calls", "SET", "v"),
	"exists": on("lane", "EXISTS"), "del": on("lane", "DEL"), "unlink": on("lane", "UNLINK"), "type": on("lane", "TYPE"), "pexpire": on("result", "PEXPIRE", "1"),
	"hget": on("jobs", "HGET", "f"), "hmget": on("jobs", "HMGET", "f"), "hset": on("jobs", "HSET", "f", "v"), "hsetnx": on("jobs", "HSETNX", "f", "v"), "hdel": on("jobs", "HDEL", "f"),
	"hexists": on("jobs", "HEXISTS", "f"), "hincrby": on("jobs", "HINCRBY", "f", "1"), "hlen": on("jobs", "HLEN"), "hgetall": on("jobs", "HGETALL"), "hrandfield": on("jobs", "HRANDFIELD", "-1"), "hkeys": on("jobs", "HKEYS"), "hscan": on("jobs", "HSCAN", "0"),
	"zadd": on("due", "ZADD", "0", "m"), "zrem": on("due", "ZREM", "m"), "zrange": on("due", "ZRANGE", "0", "0"), "zrangebyscore": on("due", "ZRANGEBYSCORE", "0", "0"), "zcard": on("due", "ZCARD"),
	"zcount": on("due", "ZCOUNT", "0", "0"), "zscore": on("due", "ZSCORE", "m"), "zmscore": on("due", "ZMSCORE", "m"), "zscan": on("due", "ZSCAN", "0"),
	"llen": on("wake", "LLEN"), "rpush": on("wake", "RPUSH", "1"), "blpop": on("wake", "BLPOP", "0"), "lindex": on("result", "LINDEX", "0"),
	"blmove": {"BLMOVE", func(k string) []string { return []string{"BLMOVE", k, k, "LEFT", "LEFT", "0"} }, "result"},
	"xadd":   on("lane", "XADD", "*", "f", "v"), "xsetid": on("events", "XSETID", "0-1"), "xdel": on("lane", "XDEL", "0-1"), "xlen": on("lane", "XLEN"), "xrange": on("lane", "XRANGE", "-", "+"),
	"xpending": on("lane", "XPENDING", "g"), "xack": on("lane", "XACK", "g", "0-1"), "xclaim": on("lane", "XCLAIM", "g", "c", "0", "0-1"), "xautoclaim": on("outbox", "XAUTOCLAIM", "g", "c", "0", "0"),
	"xreadgroup":    {"XREADGROUP", func(k string) []string { return []string{"XREADGROUP", "GROUP", "g", "c", "STREAMS", k, ">"} }, "lane"},
	"xgroup|create": sub("lane", "XGROUP", "CREATE", "g", "0"), "xgroup|delconsumer": sub("lane", "XGROUP", "DELCONSUMER", "g", "c"),
	"xinfo|groups": sub("lane", "XINFO", "GROUPS"), "xinfo|consumers": sub("lane", "XINFO", "CONSUMERS", "g"),
}

// queueKeys are those of a queue as the roles use them.
func queueKeys(q tier.Queue) map[string]string {
	return map[string]string{
		"jobs": q.JobsKey(), "due": q.JobsDueKey(), "lane": q.LaneKey(anyName), "wake": q.WakeKey(), "result": q.ResultKey(anyName), "calls": q.CallsKey(anyName),
		"outbox": q.OutboxKey(), "events": q.Events().LogKey(), "channel": q.CancelChannel(),
	}
}

func needsOf(role string) []need {
	if needs, ok := queueRoles[role]; ok {
		return needs
	}
	return roles[role]
}

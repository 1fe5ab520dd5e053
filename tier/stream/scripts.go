package stream

import (
	"embed"

	"github.com/echomq/pipeline/tier"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// The transitions. Each is one file; its header says what it does.
var (
	declareScript       = load("declare")
	partitionsScript    = load("partition_scope")
	partitionScript     = load("partition")
	attendScript        = load("attend")
	appendScript        = load("append")
	packScript          = load("pack")
	receiptScript       = load("receipt")
	roomScript          = load("room")
	followScript        = load("follow")
	exclusiveScript     = load("append_exclusive")
	onceScript          = load("append_once")
	appendIfScript      = load("append_if")
	pageScript          = load("page")
	readKeyScript       = load("read_key")
	describeScript      = load("describe")
	unreadScript        = load("unread")
	whereaboutsScript   = load("whereabouts")
	damagedScript       = load("damaged")
	oldestScript        = load("oldest")
	createGroupScript   = load("create_group")
	resetGroupScript    = load("reset_group")
	deleteGroupScript   = load("delete_group")
	pauseGroupScript    = load("pause_group")
	resumeGroupScript   = load("resume_group")
	checkpointScript    = load("checkpoint")
	syncScript          = load("sync")
	settleScript        = load("settle")
	renewScript         = load("renew")
	releaseScript       = load("release")
	takeoverScript      = load("takeover")
	commitScript        = load("commit")
	dueScript           = load("due")
	acquireScript       = load("acquire")
	keepScript          = load("keep")
	hydrateScript       = load("hydrate")
	handOverScript      = load("hand_over")
	advanceScript       = load("advance")
	dueOwnedScript      = load("due_owned")
	moveCursorScript    = load("move_cursor")
	deleteCursorScript  = load("delete_cursor")
	pauseCursorScript   = load("pause_cursor")
	resumeCursorScript  = load("resume_cursor")
	redriveScript       = load("redrive")
	retireScript        = load("retire")
	leaveScript         = load("leave")
	removeScript        = load("remove")
	purgeScript         = load("purge")
	beginEffectScript   = load("begin_effect")
	endEffectScript     = load("end_effect")
	setRetentionScript  = load("set_retention")
	takeSweepScript     = load("take_sweep")
	releaseSweepScript  = load("release_sweep")
	trimScript          = load("trim")
	dropScript          = load("drop")
	retireGroupScript   = load("retire_group")
	chooseSegmentScript = load("choose_segment")
	markSegmentScript   = load("mark_segment")
	stageScript         = load("stage")
	restoreScript       = load("restore")
	holdingsScript      = load("holdings")
	countBelowScript    = load("count_below")
	keepSnapshotScript  = load("keep_snapshot")
)

func load(name string) *tier.Script {
	source, err := luaFiles.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // the file is embedded at build time
	}
	return tier.NewScript(name, string(source))
}

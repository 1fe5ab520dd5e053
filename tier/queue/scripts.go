package queue

import (
	"embed"

	"github.com/echomq/pipeline/tier"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// The transitions. Each is one file; its header says what it does.
var (
	enqueueScript       = load("enqueue")
	flowScript          = load("enqueue_flow")
	noteScript          = load("note")
	claimScript         = load("claim")
	settleScript        = load("settle")
	commitScript        = load("commit")
	promoteScript       = load("promote")
	takeoverScript      = load("takeover")
	renewScript         = load("renew")
	releaseScript       = load("release")
	syncScript          = load("sync")
	leaveScript         = load("leave")
	retireScript        = load("retire")
	listScript          = load("list")
	lanesScript         = load("lanes")
	countsScript        = load("counts")
	auditJobsScript     = load("audit_jobs")
	auditLaneScript     = load("audit_lane")
	schedulesScript     = load("schedules")
	declareScript       = load("declare")
	fireScript          = load("fire")
	pauseQueueScript    = load("pause_queue")
	resumeQueueScript   = load("resume_queue")
	configureLaneScript = load("configure_lane")
	setCeilingScript    = load("set_ceiling")
	removeScript        = load("remove")
	requeueScript       = load("requeue")
	drainScript         = load("drain")
	moveScript          = load("move")
	updateScript        = load("update")
	annotateScript      = load("annotate")
	obliterateScript    = load("obliterate")
	declareEventsScript = load("declare_events")
)

func load(name string) *tier.Script {
	source, err := luaFiles.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // the file is embedded at build time
	}
	return tier.NewScript(name, string(source))
}

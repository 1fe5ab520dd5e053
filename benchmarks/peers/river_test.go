package peers_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverPeer is River on a PostgreSQL of its own with its defaults, but for what a match says, and for a connection for each of 16 callers.
type riverPeer struct {
	a  *arena
	db *pgxpool.Pool
	on string
}

// notAsRoot is what PostgreSQL asks for: the user that its package has made.
func notAsRoot(a *arena, dir string) *syscall.SysProcAttr {
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	must(a.b, err)
	uid, err := strconv.Atoi(u.Uid)
	must(a.b, err)
	gid, err := strconv.Atoi(u.Gid)
	must(a.b, err)
	must(a.b, os.Chown(dir, uid, gid))
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

func newRiver(a *arena) *riverPeer {
	dir, port := a.serverDir(), freePort(a.b)
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(installed(a, name, "/usr/lib/postgresql/*/bin/"), append([]string{"-D", dir}, args...)...)
		cmd.SysProcAttr, cmd.Dir, cmd.Env = notAsRoot(a, dir), dir, []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8"}
		return cmd
	}
	if said, err := command("initdb", "-A", "trust", "-U", "postgres").CombinedOutput(); err != nil {
		a.b.Fatalf("initdb: %v\n%s", err, said)
	}
	a.start(command("postgres", "-h", "127.0.0.1", "-p", port, "-k", dir))
	cfg, err := pgxpool.ParseConfig("postgres://postgres@127.0.0.1:" + port + "/postgres?sslmode=disable")
	must(a.b, err)
	cfg.MaxConns = 20
	p := &riverPeer{a: a}
	p.db, err = pgxpool.NewWithConfig(a.b.Context(), cfg)
	must(a.b, err)
	a.b.Cleanup(p.db.Close)
	var version, fsync, commit string
	a.eventually(func() error {
		return p.db.QueryRow(a.b.Context(), "select current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit')").Scan(&version, &fsync, &commit)
	})
	p.on = fmt.Sprintf("PostgreSQL %s, fsync %s, synchronous_commit %s", version, fsync, commit)
	migrator, err := rivermigrate.New(riverpgxv5.New(p.db), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	must(a.b, err)
	_, err = migrator.Migrate(a.b.Context(), rivermigrate.DirectionUp, nil)
	must(a.b, err)
	return p
}

// does is a contestant.
func (p *riverPeer) does(name string, run func() outcome) contestant {
	return contestant{name, func(*arena) outcome {
		_, err := p.db.Exec(p.a.b.Context(), "truncate river_job")
		must(p.a.b, err)
		return run()
	}, p.on}
}

// noop is a job of as many bytes as the others have.
type noop struct {
	Data string `json:"data"`
}

func (noop) Kind() string { return "noop" }

type noopWorker struct {
	river.WorkerDefaults[noop]
	handle func(data []byte)
}

func (w *noopWorker) Work(_ context.Context, j *river.Job[noop]) error {
	w.handle([]byte(j.Args.Data))
	return nil
}

// client has workers if there is something to handle jobs with.
func (p *riverPeer) client(workers int, cooldown time.Duration, handle func(data []byte)) *river.Client[pgx.Tx] {
	cfg := &river.Config{Logger: slog.New(slog.DiscardHandler)}
	if handle != nil {
		cfg.Workers, cfg.FetchCooldown = river.NewWorkers(), cooldown
		cfg.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}}
		river.AddWorker(cfg.Workers, &noopWorker{handle: handle})
	}
	c, err := river.NewClient(riverpgxv5.New(p.db), cfg)
	must(p.a.b, err)
	return c
}

func (p *riverPeer) enqueues(goroutines, jobs int) outcome {
	c := p.client(0, 0, nil)
	return p.a.measured(jobs, func() {
		parallel(goroutines, jobs, func(int) {
			_, err := c.Insert(p.a.b.Context(), noop{string(payload)}, nil)
			must(p.a.b, err)
		})
	})
}

func (p *riverPeer) insertMany(jobs, atOnce int) {
	c := p.client(0, 0, nil)
	list := make([]river.InsertManyParams, atOnce)
	for i := range list {
		list[i].Args = noop{string(payload)}
	}
	for range jobs / atOnce {
		_, err := c.InsertManyFast(p.a.b.Context(), list)
		must(p.a.b, err)
	}
}

func (p *riverPeer) enqueuesMany(jobs, atOnce int) outcome {
	return p.a.measured(jobs, func() { p.insertMany(jobs, atOnce) })
}

// drains counts up to when no job is left that is not completed.
func (p *riverPeer) drains(workers, jobs int, cooldown time.Duration) outcome {
	ctx := p.a.b.Context()
	p.insertMany(jobs, min(jobs, 1000))
	all := newCountdown(jobs)
	c := p.client(workers, cooldown, func([]byte) { all.saw() })
	defer func() { must(p.a.b, c.Stop(ctx)) }()
	return p.a.measured(jobs, func() {
		must(p.a.b, c.Start(ctx))
		all.wait(p.a.b)
		for rest := 1; rest > 0; {
			must(p.a.b, p.db.QueryRow(ctx, "select count(*) from river_job where state <> 'completed'").Scan(&rest))
		}
	})
}

func (p *riverPeer) latency(workers int, cooldown time.Duration) outcome {
	ctx := p.a.b.Context()
	l := newLatency()
	c := p.client(workers, cooldown, l.started)
	must(p.a.b, c.Start(ctx))
	defer func() { must(p.a.b, c.Stop(ctx)) }()
	return l.run(p.a, func(data []byte) {
		_, err := c.Insert(ctx, noop{string(data)}, nil)
		must(p.a.b, err)
	})
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/topology"
	"github.com/echomq/pipeline/topology/stage"
)

// topologyRunning is what topology run is told.
type topologyRunning struct {
	app    *app
	only   []string
	listen string
	drain  bool
}

func topologyRun(a *app) *cobra.Command {
	r := &topologyRunning{app: a}
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Run the sources, stages, projections and sinks of a document",
		Long: `Run the sources, stages, projections and sinks of a document, until it is stopped.
Any number of processes may run the same ones: of each one is at work, the others
stand by, and take over when it dies. What a stage appends, its state and its place are one
commit, so that each message counts once. SIGTERM and Ctrl-C stop it in order, with
exit code 0: each hands over what it owns.

With --listen it serves /healthz, which is 200 until a part fails; /readyz, which is
200 when all parts take part; and /metrics.`,
		Example: `  pipeline topology run shop.yaml
  pipeline topology run shop.yaml --part large --listen :9100
  pipeline topology run shop.yaml --drain`,
		Args: arguments(1, 1, wantsDocument), ValidArgsFunction: completeFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			doc, err := document(args[0])
			if err != nil {
				return err
			}
			a.logs, a.service = true, !r.drain
			return a.withClient(cmd.Context(), func(ctx context.Context, client *tier.Client) error { return r.run(ctx, client, doc) })
		},
	}
	f := cmd.Flags()
	f.Var(&value{kind: "NAME", set: func(s string) error {
		r.only = append(r.only, s)
		return tier.CheckName("part", s)
	}}, "part", "run this source, stage, projection or sink only; may be given again")
	f.Var(&value{kind: "ADDR", set: func(s string) (err error) {
		r.listen, err = listenAddress(s)
		return err
	}}, "listen", "serve health, readiness and metrics at http://ADDR; :9100 is on loopback")
	f.BoolVar(&r.drain, "drain", false, "end when the sources have ended and all is handled")
	return cmd
}

func (r *topologyRunning) run(ctx context.Context, client *tier.Client, doc *topology.Document) error {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	running, err := topology.NewRun(client, doc, topology.RunOptions{Only: r.only, Options: stage.Options{Logger: r.app.logger(), Registerer: reg}})
	if err != nil {
		return err
	}
	stop, err := r.serve(ctx, running, reg)
	if err != nil {
		return err
	}
	defer stop()
	r.app.note("%s of topology %s", show.Count(len(running.States()), "part"), show.Printable(doc.Name))
	if !r.drain {
		return running.Run(ctx)
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	drained := make(chan error, 1)
	go func() {
		err := running.Drained(ctx)
		if ctx.Err() != nil { // it was stopped, or a part has failed, which the run tells
			err = nil
		}
		end()
		drained <- err
	}()
	err = running.Run(ctx)
	end()
	return errors.Join(err, <-drained)
}

// serve answers whether the run is well, until stop is called.
func (r *topologyRunning) serve(ctx context.Context, running *topology.Run, reg *prometheus.Registry) (stop func(), err error) {
	if r.listen == "" {
		return func() {}, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", r.listen)
	if err != nil {
		return nil, listenError("--listen", r.listen, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{Registry: reg}))
	states := func(w http.ResponseWriter, bad ...string) {
		parts := running.States()
		w.Header().Set("Content-Type", "application/json")
		if slices.ContainsFunc(parts, func(p topology.PartState) bool { return slices.Contains(bad, p.State) }) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(parts)
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { states(w, "failed") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { states(w, "failed", "starting") })
	server := &http.Server{Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: time.Minute}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			r.app.warn("--listen %s: %v", r.listen, err)
		}
	}()
	at := listener.Addr().(*net.TCPAddr)
	if !at.IP.IsLoopback() {
		r.app.warn("--listen %s: others on the network can read the metrics", r.listen)
	}
	r.app.note("health: http://%s/healthz", at)
	return func() {
		_ = server.Close()
		<-ended
	}, nil
}

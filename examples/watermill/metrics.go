package main

import (
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/components/metrics"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"
)

// measure counts with Watermill's metrics what a router handles.
func measure(ctx context.Context, b *backend) error {
	registry := prometheus.NewRegistry()
	metrics.NewPrometheusMetricsBuilder(registry, "example", "").AddPrometheusRouterMetrics(b.router)
	handled := make(chan string)
	if err := b.consume("counter", "things", func(m *message.Message) error {
		handled <- string(m.Payload)
		return nil
	}); err != nil {
		return err
	}
	if err := b.during(ctx, func() error {
		if err := b.publisher.Publish("things", text("one"), text("two")); err != nil {
			return err
		}
		<-handled
		<-handled
		return nil
	}); err != nil {
		return err
	}
	families, err := registry.Gather()
	for _, family := range families {
		if family.GetName() == "example_handler_execution_time_seconds" {
			fmt.Fprintln(b.out, "handled:", family.Metric[0].GetHistogram().GetSampleCount())
		}
	}
	return err
}

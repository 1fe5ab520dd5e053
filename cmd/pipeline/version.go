package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/tier"
)

// version is set by -ldflags "-X main.version=...".
var version = ""

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of this program and of its wire",
		Args:  arguments(0, 0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			v := programVersion()
			if !a.json() {
				return a.print(fmt.Sprintf("pipeline %s, wire %s, %s %s/%s\n", v, tier.Wire, runtime.Version(), runtime.GOOS, runtime.GOARCH))
			}
			return a.printObject(map[string]string{
				"version": v, "wire": tier.Wire, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
			})
		},
	}
}

// programVersion is what the build says, or "devel".
func programVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

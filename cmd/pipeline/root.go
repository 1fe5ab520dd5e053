package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/echomq/pipeline/tier"
)

// newRoot returns the command tree.
func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "pipeline",
		Short: "Durable event streams with consumer groups, on nothing but Valkey",
		Long: `Durable event streams with consumer groups, on nothing but Valkey.

Without a server URL the commands share one embedded server: a valkey-server
child process on a unix socket, its data kept in $PIPELINE_DIR or the user's
directory for application data.

On a terminal the output is for people; piped, or with --output json, it is one
JSON object a line. Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 timed
out with nothing, 130 interrupted.`,
		Example: `  pipeline demo
  pipeline produce shop/orders orders.csv --key customer
  pipeline consume shop/orders --group mailer --exec ./send-mail
  pipeline range shop/orders --from 1h`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE:          runRoot,
	}
	root.SuggestionsMinimumDistance = 2
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped 80"))
	root.SetFlagErrorFunc(flagError)
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	a.globalFlags(root.PersistentFlags())
	root.AddCommand(
		demoCommand(a), demoWorkerCommand(a),
		serverCommand(a), produceCommand(a), consumeCommand(a), tailCommand(a), rangeCommand(a),
		getCommand(a), streamsCommand(a), groupsCommand(a), projectionsCommand(a), streamCommand(a), groupCommand(a), scopeCommand(a), deadCommand(a), workCommand(a), jobsCommand(a), queuesCommand(a), lanesCommand(a), cronCommand(a), retentionCommand(a), archiveCommand(a), replayCommand(a), topologyCommand(a), importCommand(a), hydrateCommand(a), checkCommand(a), doctorCommand(a), benchCommand(a), capacityCommand(a), versionCommand(a),
	)
	refuseUnknownTopics(root)
	completeChoices(root)
	_ = root.RegisterFlagCompletionFunc("url-file", cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault))
	return root
}

// refuseUnknownTopics makes help for what does not exist an error, as the command
// itself is.
func refuseUnknownTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			c.Run, c.RunE = nil, func(_ *cobra.Command, args []string) error {
				found, rest, err := root.Find(args)
				if err != nil || len(rest) > 0 {
					return runRoot(root, args)
				}
				found.InitDefaultHelpFlag()
				return found.Help()
			}
		}
	}
}

// runRoot runs when no command was found.
func runRoot(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	hint := ""
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf("; did you mean %s?", strings.Join(near, " or "))
	}
	return usagef("unknown command %q%s (pipeline help lists them)", args[0], hint)
}

func (a *app) globalFlags(f *pflag.FlagSet) {
	f.Var(given(&a.url, "a URL, as in valkey://host:6379; without --url there is an embedded server"), "url", "server, as in valkey://host:6379, valkeys:// (TLS), unix:///path (default: $PIPELINE_URL, else an embedded server)")
	f.Var(given(&a.urlFile, "the name of a file"), "url-file", "file that holds the server's URL: the place for one with a password")
	f.Var(choice(&a.output, "text", "json"), "output", "text for people or JSON lines (default: text on a terminal, else json)")
	f.BoolVar(&a.quiet, "quiet", false, "say nothing on standard error but warnings and errors")
	f.Var(duration(&a.timeout), "timeout", "end after this long; exit code 4 if nothing came by then")
}

// flagError names the value and the rule.
func flagError(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	var refused *tier.NameError
	switch {
	case !errors.As(err, &invalid):
		return usagef("%w (%s --help)", err, cmd.CommandPath())
	case errors.As(err, &refused):
		return usagef("%s %q: %s", flagName(invalid.GetFlag()), invalid.GetValue(), refused.Rule)
	}
	return usagef("%s %.100q: %w", flagName(invalid.GetFlag()), invalid.GetValue(), errors.Unwrap(err))
}

func flagName(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand
	}
	return "--" + f.Name
}

// arguments checks how many there are; want says what they are.
func arguments(low, high int, want string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < low:
			return usagef("want %s (%s --help)", want, cmd.CommandPath())
		case len(args) > high:
			return usagef("%.100q is one argument too many: want %s (%s --help)", args[high], want, cmd.CommandPath())
		}
		return nil
	}
}

// completeChoices lets shells complete flags that take one of several words.
func completeChoices(cmd *cobra.Command) {
	complete := func(f *pflag.Flag) {
		words := strings.Split(f.Value.Type(), "|")
		several := len(words) > 1
		words = slices.DeleteFunc(words, func(w string) bool { return w == strings.ToUpper(w) }) // what stands for others
		if several {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	cmd.PersistentFlags().VisitAll(complete)
	cmd.Flags().VisitAll(complete)
	for _, sub := range cmd.Commands() {
		completeChoices(sub)
	}
}

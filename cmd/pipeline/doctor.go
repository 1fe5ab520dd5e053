package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/doctor"
)

func doctorCommand(a *app) *cobra.Command {
	var strict bool
	var as doctor.As
	cmd := &cobra.Command{
		Use:   "doctor [SCOPE...]",
		Short: "Find what is wrong with a deployment, and say what to do",
		Long: `Find what is wrong with a deployment, or will be, and say what to do: the settings
of its servers, their memory, disks and clocks, the cluster, what the user may not
do, the registry, and of each scope, or of those named: what must hold in it, ids
ahead of the clock, large streams, groups and cursors that nobody works on,
consumers that died, dead letters. Nothing is changed.

A finding is an error when something does not work or messages will be lost, a
warning when it will be one if nobody acts, or a note. What the user may not look
at is a note. The exit code is 1 with an error; --strict: with a warning, too.

What the user lacks of a role (writer, reader, consumer, operator) is a note, as
it need not have them all. With --as it is an error: SCOPE may be an address then,
and --group name a group, whose keys the user is to have. Roles in a queue
(enqueuer, worker, scheduler, queue-operator) are looked at with --as only.`,
		Example: `  pipeline doctor
  pipeline doctor shop --strict --output json
  pipeline doctor shop/orders --as consumer --group mailer`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			scopes, err := scopesOf(args, &as)
			if err != nil {
				return err
			}
			connected := false
			err = a.withClient(cmd.Context(), func(ctx context.Context, client *tier.Client) error {
				connected = true
				return a.doctor(ctx, client, doctor.Options{Scopes: scopes, As: as}, strict)
			})
			f, ok := doctor.Refused(err)
			if !ok && !connected && errors.Is(err, errNothing) {
				f, ok = doctor.Finding{
					Severity: doctor.Error, Code: "unreachable", Where: "server",
					What: fmt.Sprintf("it let nobody in within --timeout %s", a.timeout), Do: "give it longer, or check that the server answers",
				}, true
			}
			if ok {
				return a.diagnosed(a.shut(cmd.Context(), f), strict)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with 1 when there is a warning, too")
	role := choice(&as.Role, append(doctor.Roles(), doctor.QueueRoles()...)...)
	role.kind = "ROLE" // all of them are longer than a line
	cmd.Flags().Var(role, "as", "the role that the user is to have: what it lacks is an error")
	cmd.Flags().StringVar(&as.Group, "group", "", "the group that it is to consume or operate, with --as")
	return cmd
}

// shut is the report when nobody is let in: why, and what the servers say that answer all the same.
func (a *app) shut(ctx context.Context, why doctor.Finding) doctor.Report {
	var r doctor.Report
	if url, _, err := a.serverURL(); err == nil && url != "" && (why.Code == "cluster" || why.Code == "unreachable") {
		ctx, cancel := a.bounded(ctx)
		defer cancel()
		r, _ = doctor.ExamineNodes(ctx, url, tier.Options{ClientName: "pipeline"}, doctor.Marks{}) // why says enough
	}
	r.Findings = append([]doctor.Finding{why}, r.Findings...)
	return r
}

// scopesOf are the scopes of the arguments. With a role, one may be an address.
func scopesOf(args []string, as *doctor.As) (scopes []string, err error) {
	if as.Group != "" && as.Role == "" {
		return nil, usagef("--group needs --as, and names whose keys the role is to have")
	}
	if as.Group != "" {
		err = tier.CheckName("group", as.Group)
	}
	for _, arg := range args {
		addr, notAddress := tier.ParseAddress(arg)
		switch {
		case notAddress == nil && as.Role == "":
			return nil, usagef("doctor takes scopes: %s", addr.Scope)
		case notAddress == nil && len(args) > 1:
			return nil, usagef("with --as, doctor takes scopes or one address")
		case notAddress == nil:
			arg, as.Stream = addr.Scope, addr.Stream
		}
		if err == nil {
			err = tier.CheckName("scope", arg)
		}
		scopes = append(scopes, arg)
	}
	return scopes, err
}

func (a *app) doctor(ctx context.Context, client *tier.Client, o doctor.Options, strict bool) error {
	for _, scope := range o.Scopes {
		if err := a.mustExist(ctx, client, scope); err != nil && codeOf(err) == exitNotFound {
			return err
		}
	}
	r, err := doctor.Examine(ctx, client, o)
	if err != nil {
		return err
	}
	a.done = 1
	return a.diagnosed(r, strict)
}

// diagnosed shows what was found, and is an error when the exit code has to say so.
func (a *app) diagnosed(r doctor.Report, strict bool) error {
	counts := map[doctor.Severity]int{}
	for _, f := range r.Findings {
		counts[f.Severity]++
	}
	examined := fmt.Sprintf("%s, %s, %s, %s, %s", show.Count(r.Nodes, "node"), show.Count(r.Scopes, "scope"), show.Count(r.Streams, "stream"),
		show.Count(r.Groups, "group"), show.Count(r.Cursors, "cursor"))
	if len(r.Findings) == 0 {
		a.note("nothing wrong was found in %s", examined)
		return nil
	}
	if err := a.printFindings(r.Findings); err != nil {
		return err
	}
	sum := fmt.Sprintf("%s, %s, %s in %s", show.Count(counts[doctor.Error], "error"), show.Count(counts[doctor.Warning], "warning"),
		show.Count(counts[doctor.Note], "note"), examined)
	if r.Nodes == 0 {
		sum = strings.TrimSuffix(sum, " in "+examined) + ": nothing could be examined"
	}
	if counts[doctor.Error] > 0 || (strict && counts[doctor.Warning] > 0) {
		return fmt.Errorf("%s", sum)
	}
	a.note("%s", sum)
	return nil
}

func (a *app) printFindings(list []doctor.Finding) error {
	if a.json() {
		for _, f := range list {
			err := a.printObject(struct {
				Severity doctor.Severity `json:"severity"`
				Code     string          `json:"code"`
				Where    string          `json:"where"`
				What     string          `json:"what"`
				Do       string          `json:"do"`
			}{f.Severity, f.Code, f.Where, f.What, f.Do})
			if err != nil {
				return err
			}
		}
		return nil
	}
	width := a.width()
	if width == 0 {
		width = 100
	}
	var b strings.Builder
	for i, f := range list {
		if i == 0 || f.Severity != list[i-1].Severity {
			fmt.Fprintf(&b, "%s\n", strings.ToUpper(string(f.Severity))+"S")
		}
		fmt.Fprintf(&b, "  %s  %s\n", show.Printable(f.Where), f.Code)
		for _, line := range wrapped(show.Printable(f.What), width-4) {
			b.WriteString("    " + line + "\n")
		}
		for k, line := range wrapped(show.Printable(f.Do), width-7) {
			b.WriteString("    " + map[bool]string{true: "-> ", false: "   "}[k == 0] + line + "\n")
		}
	}
	return a.print(b.String())
}

// wrapped breaks a text at its spaces.
func wrapped(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && show.Width(line)+1+show.Width(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

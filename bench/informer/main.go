package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-informer:", err)
		os.Exit(1)
	}
}

// runWithin bounds one run: client-go takes about a minute on two cores that others use too.
const runWithin = 10 * time.Minute

func run(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	flags := flag.NewFlagSet("bench-informer", flag.ContinueOnError)
	pods := flags.Int("pods", 100_000, "how many pods")
	events := flags.Int("events", 30_000, "how many events")
	only := flags.String("run", ".", "regular expression of the runs")
	role := flags.String("role", "", "for its own child processes: serve, or the name of a run")
	url := flags.String("url", "", "for its own child processes: the server")
	profile := flags.String("profile", "", "for one run alone: file that gets the client's CPU profile")
	file := flags.String("record", "", "file that gets the results, for bench --add")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *role == "serve" {
		return serve(ctx, *pods, stdin, stdout)
	}
	selected, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("--run: %w", err)
	}
	if *role != "" {
		for _, o := range plan(*pods, *events) {
			if o.name() == *role {
				f, err := profiled(*profile, func() (figures, error) { return measure(ctx, *url, o) })
				return errors.Join(err, json.NewEncoder(stdout).Encode(f))
			}
		}
		return fmt.Errorf("no run is called %q", *role)
	}
	results := map[string]figures{}
	for _, o := range plan(*pods, *events) {
		if !selected.MatchString(o.name()) {
			continue
		}
		f, err := child(ctx, o, *profile)
		if err != nil {
			return fmt.Errorf("run %q: %w", o.name(), err)
		}
		results[o.name()] = f
		fmt.Fprintf(os.Stderr, "%s: %+v\n", o.name(), f)
	}
	if selected.MatchString(ourHistory) {
		found, err := histories(ctx)
		if err != nil {
			return err
		}
		maps.Copy(results, found)
	}
	return errors.Join(table(stdout, results, *pods), record(*file, results, *pods, *events))
}

func (o runOptions) name() string {
	how := "stream"
	if o.list {
		how = "list"
	}
	return fmt.Sprintf("%s, %s, %d handlers", o.subject, how, o.handlers)
}

// plan is every run.
func plan(pods, events int) []runOptions {
	var all []runOptions
	add := func(subject string, list bool, handlers int) {
		all = append(all, runOptions{subject: subject, list: list, handlers: handlers, pods: pods, events: events})
	}
	for _, subject := range []string{"client-go typed", "typed"} {
		add(subject, true, 1)
		add(subject, false, 1)
		add(subject, true, 10)
	}
	for _, subject := range []string{"client-go typed protobuf", "typed protobuf"} {
		add(subject, true, 1)
		add(subject, false, 1)
	}
	add("typed protobuf stripped", true, 1)
	for _, subject := range []string{
		"client-go unstructured", "unstructured", "typed stripped", "encoded", "encoded unstructured", "slim",
	} {
		add(subject, true, 1)
	}
	return all
}

// child measures one run in processes of its own.
func child(ctx context.Context, o runOptions, profile string) (f figures, err error) {
	ctx, cancel := context.WithTimeout(ctx, runWithin)
	defer cancel()
	program, err := os.Executable()
	if err != nil {
		return f, fmt.Errorf("find this program: %w", err)
	}
	sizes := []string{"-pods", fmt.Sprint(o.pods), "-events", fmt.Sprint(o.events), "-profile", profile}
	server := exec.CommandContext(ctx, program, append(sizes, "-role", "serve")...)
	server.Stderr = os.Stderr
	in, err := server.StdinPipe()
	if err != nil {
		return f, fmt.Errorf("server: %w", err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		return f, fmt.Errorf("server: %w", err)
	}
	if err := server.Start(); err != nil {
		return f, fmt.Errorf("server: %w", err)
	}
	defer func() {
		err = errors.Join(err, in.Close(), server.Wait())
	}()
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return f, fmt.Errorf("the server's address: %w", err)
	}
	client := exec.CommandContext(ctx, program, append(sizes, "-role", o.name(), "-url", strings.TrimSpace(url))...)
	client.Stderr = os.Stderr
	client.Env = append(os.Environ(), fmt.Sprintf("KUBE_FEATURE_WatchListClient=%t", !o.list))
	answer, err := client.Output()
	if err != nil {
		return f, fmt.Errorf("client: %w", err)
	}
	return f, json.Unmarshal(answer, &f)
}

// profiled writes the CPU profile of a run if a file is given.
func profiled(file string, measure func() (figures, error)) (f figures, err error) {
	if file == "" {
		return measure()
	}
	out, err := os.Create(file)
	if err != nil {
		return f, fmt.Errorf("profile: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := pprof.StartCPUProfile(out); err != nil {
		return f, fmt.Errorf("profile: %w", err)
	}
	defer pprof.StopCPUProfile()
	return measure()
}

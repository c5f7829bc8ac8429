package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// command is what gapless describe prints of a command.
type command struct {
	Use, Short, Long, Example string
	Flags                     []commandFlag
	Commands                  []command
}

type commandFlag struct {
	Name, Shorthand, Type, Default, Bare, Usage string
}

// value is the value of a flag in a manual: its type, and nothing else.
type value struct{ of, text string }

func (v *value) String() string                { return v.text }
func (v *value) Set(string) error              { return nil }
func (v *value) Type() string                  { return v.of }
func (c command) run(*cobra.Command, []string) {}

// makeManual makes man pages of what the program says of its commands, and has it print its completions.
func (r *release) makeManual(ctx context.Context) error {
	out, err := output(ctx, r.work, r.own, "describe")
	if err != nil {
		return err
	}
	var all command
	if err := json.Unmarshal(out, &all); err != nil {
		return fmt.Errorf("read what the program says of its commands: %w", err)
	}
	dir := filepath.Join(r.work, "man1")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root := all.cobra()
	root.CompletionOptions.DisableDefaultCmd = true // it is among those that are described
	header := &doc.GenManHeader{Section: "1", Date: &r.time, Source: "gapless " + r.version, Manual: "gapless"}
	if err := doc.GenManTree(root, header, dir); err != nil {
		return err
	}
	pages, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(dir, page.Name()))
		if err != nil {
			return err
		}
		r.manual = append(r.manual, file{name: page.Name(), text: text})
	}
	for _, shell := range []string{"bash", "fish", "powershell", "zsh"} {
		text, err := output(ctx, r.work, r.own, "completion", shell)
		if err != nil {
			return err
		}
		r.complete = append(r.complete, file{name: shell, text: text})
	}
	return nil
}

// cobra makes a command again of what was said of it.
func (c command) cobra() *cobra.Command {
	made := &cobra.Command{
		Use: c.Use, Short: c.Short, Long: c.Long, Example: c.Example, Run: c.run, DisableAutoGenTag: true,
	}
	for _, f := range c.Flags {
		flag := made.Flags().VarPF(&value{of: f.Type, text: f.Default}, f.Name, f.Shorthand, f.Usage)
		flag.NoOptDefVal = f.Bare
	}
	for _, below := range c.Commands {
		made.AddCommand(below.cobra())
	}
	return made
}

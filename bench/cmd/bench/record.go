package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/gapless-io/gapless/bench/internal/cases"
)

// addFile adds the runs of the file that --add names, if any, and writes the page.
func addFile(ctx context.Context, o options) error {
	var more cases.Record
	if o.add != "" {
		read, err := cases.ReadRecord(o.add)
		if err != nil {
			return err
		}
		more = *read
	}
	return keep(ctx, o.root, more.Runs...)
}

// keep adds runs of this machine to the record of a checkout, and writes its page.
func keep(ctx context.Context, root string, runs ...cases.Recorded) error {
	path := filepath.Join(root, "bench", "log", "results.json")
	record, err := cases.ReadRecord(path)
	if err != nil {
		return err
	}
	for _, run := range runs {
		if run.Commit, err = cases.Commit(ctx, root); err != nil {
			return err
		}
		if run.Date == "" {
			run.Date = time.Now().UTC().Format(time.DateOnly)
		}
		if run.Machine == "" {
			run.Machine = cases.Machine(root)
		}
		record.Add(run)
	}
	if err := record.Write(path); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "docs", "performance.md"), []byte(record.Page()), 0o644) //nolint:gosec // a page is for everybody
}

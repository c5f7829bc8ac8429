package seed

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// manager is who manages the fields that are written here.
const manager = "gapless"

// outcome is what a write has done.
type outcome int

const (
	unchanged outcome = iota
	created
	updated
)

// write writes the pending objects of a phase, several concurrently. Definitions are
// written one after the other: the first one gets a name that several claim.
func (s *Seeder) write(ctx context.Context, p phase) error {
	pending := false
	for _, e := range s.entries {
		pending = pending || e.phase == p && e.pending
	}
	if !pending {
		return nil
	}
	s.setCatalog(s.Live.Load()) // with what the phase before has defined
	// The objects that wait are at most one for each writer, so memory is bounded.
	work := make(chan object)
	var wg sync.WaitGroup
	concurrent := writers
	if p == definitions {
		concurrent = 1
	}
	// They are write's, and end when work is closed.
	for range concurrent {
		wg.Go(func() {
			for o := range work {
				s.writeOne(ctx, o)
			}
		})
	}
	err := s.send(ctx, p, work)
	close(work)
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// send reads the objects of a phase and sends them to the writers.
func (s *Seeder) send(ctx context.Context, p phase, work chan<- object) error {
	next := 0
	for o, wrong := range s.objects() {
		if wrong != nil {
			return fmt.Errorf("%s was changed while it was read: start again", wrong.File)
		}
		if err := s.same(o, next); err != nil {
			return err
		}
		e := s.entries[next]
		next++
		if e.phase != p || !e.pending {
			continue
		}
		select {
		case work <- o:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		s.progress(ctx, "write", next)
	}
	return nil
}

// writeOne writes an object, and notes what it did.
func (s *Seeder) writeOne(ctx context.Context, o object) {
	r := s.kinds[o.kind]
	if r == nil {
		s.fail(*s.problem(o.place, o.title(), s.unknown(o.kind)))
		return
	}
	o.prepare(r)
	did, w, err := s.ensure(ctx, o, r)
	if err == nil && r.IsDefinition() {
		err = s.established(w)
	}
	if err != nil {
		if ctx.Err() == nil {
			s.fail(*s.problem(o.place, o.title(), err))
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch did {
	case unchanged:
		s.result.Unchanged++
	case created:
		s.result.Created++
	case updated:
		s.result.Updated++
	}
	for _, warning := range w.Warnings {
		if s.warned++; s.warned <= maxWarnings {
			s.Logger.LogAttrs(ctx, slog.LevelWarn, "the server warns about a manifest", slog.String("file", s.Files.Name(o.file)),
				slog.Int("line", o.line), slog.String("object", o.title()), slog.String("warning", warning))
		}
	}
}

// ensure applies a manifest, which creates its object if there is none.
func (s *Seeder) ensure(ctx context.Context, o object, r *kinds.Resource) (outcome, wire.Written, error) {
	body, err := o.body()
	if err != nil {
		return unchanged, wire.Written{}, err
	}
	t := o.target(r)
	existing, err := s.existing(ctx, t)
	if err != nil {
		return unchanged, wire.Written{}, err
	}
	w, err := s.put(ctx, t, existing, application{body: body})
	switch {
	case err != nil:
		return unchanged, w, err
	case w.Created:
		return created, w, nil
	case existing != nil && w.Object.ResourceVersion() == existing.ResourceVersion():
		return unchanged, w, nil
	}
	return updated, w, nil
}

// existing returns the object of a target as it is; nil if there is none.
func (s *Seeder) existing(ctx context.Context, t kinds.Target) (*wire.Object, error) {
	o, err := s.Verbs.Get(ctx, t, "")
	if isReason(err, metav1.StatusReasonNotFound) {
		return nil, nil //nolint:nilnil // there is none
	}
	return o, err
}

// application is a manifest that is applied.
type application struct {
	body   []byte
	dryRun []string // of the options of the write
}

// put applies a manifest to a target, by force. An object whose fields cannot be managed, as
// it has too many, is created instead, or the manifest is merged into it like a JSON merge
// patch (RFC 7386).
func (s *Seeder) put(ctx context.Context, t kinds.Target, existing *wire.Object, a application) (wire.Written, error) {
	force := true
	w, err := s.Verbs.Patch(ctx, t, wire.Patch{Type: types.ApplyYAMLPatchType, Body: a.body},
		metav1.PatchOptions{
			FieldManager: manager, Force: &force, DryRun: a.dryRun, FieldValidation: metav1.FieldValidationStrict,
		})
	switch {
	case !isReason(err, metav1.StatusReasonRequestEntityTooLarge):
		return w, err
	case existing == nil:
		t.Name = ""
		return s.Verbs.Create(ctx, t, a.body, metav1.CreateOptions{
			FieldManager: manager, DryRun: a.dryRun, FieldValidation: metav1.FieldValidationStrict,
		})
	}
	return s.Verbs.Patch(ctx, t, wire.Patch{Type: types.MergePatchType, Body: a.body}, metav1.PatchOptions{
		FieldManager: manager, DryRun: a.dryRun,
	})
}

// established returns an error for a definition that is not in force: another resource of
// its group has one of its names.
func (s *Seeder) established(w wire.Written) error {
	gr := kinds.DefinedBy(w.Object.Key().Name)
	if _, served := s.Live.Load().Storage(gr); served {
		return nil
	}
	return fmt.Errorf("the definition is not established: another resource of the group %s has one of its names", gr.Group)
}

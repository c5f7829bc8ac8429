package main

import (
	"context"
	"io"
	"path/filepath"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/generate/bin"
	"github.com/rs/zerolog"
)

// bills writes a bill of materials in CycloneDX's JSON for each program: the modules that are linked into it, with
// their sums, as the program itself lists them.
func (r *release) bills(_ context.Context, dir string) error {
	for _, p := range r.programs {
		generator, err := bin.NewGenerator(p.file, bin.WithIncludeStdlib(true), bin.WithLogger(zerolog.Nop()))
		if err != nil {
			return err
		}
		bill, err := generator.Generate()
		if err != nil {
			return err
		}
		bill.Metadata.Timestamp = r.time.Format("2006-01-02T15:04:05Z")
		name := strings.TrimSuffix(strings.TrimSuffix(r.archiveName(p), ".tar.gz"), ".zip") + ".cdx.json"
		if err := toFile(filepath.Join(dir, name), func(to io.Writer) error {
			return cdx.NewBOMEncoder(to, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bill, cdx.SpecVersion1_6)
		}); err != nil {
			return err
		}
	}
	return nil
}

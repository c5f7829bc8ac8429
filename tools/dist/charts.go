package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// chartVersion is the version that charts have in the repository.
const chartVersion = "0.0.0"

// charts writes the charts of deploy/charts as helm package does, with the version of the release.
func (r *release) charts(_ context.Context, dir string) error {
	from := filepath.Join(r.root, "deploy", "charts")
	charts, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, chart := range charts {
		files, err := r.chart(os.DirFS(from), chart.Name())
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%s-%s.tgz", chart.Name(), strings.TrimPrefix(r.version, "v"))
		if err := toFile(filepath.Join(dir, name), func(to io.Writer) error {
			return writeTarGzip(to, files, r.time)
		}); err != nil {
			return err
		}
	}
	return nil
}

// chart returns the files of a chart. Chart.yaml is first, as Helm has it.
func (r *release) chart(from fs.FS, chart string) ([]file, error) {
	var files []file
	err := fs.WalkDir(from, chart, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		f := file{name: name, mode: 0o644, text: text}
		if name != chart+"/Chart.yaml" {
			files = append(files, f)
			return nil
		}
		if strings.Count(string(text), chartVersion) != 2 {
			return fmt.Errorf("%s does not have the version %s twice, as its own and as the program's", name, chartVersion)
		}
		version := strings.NewReplacer("version: "+chartVersion, "version: "+strings.TrimPrefix(r.version, "v"),
			"appVersion: "+chartVersion, "appVersion: "+r.tag())
		f.text = []byte(version.Replace(string(text)))
		files = append([]file{f}, files...)
		return nil
	})
	return files, err
}

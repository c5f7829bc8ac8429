package install

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/cmd/gapless/dropin"
)

// IndexName is the file name of an index, as that of upstream.
const IndexName = "envtest-releases.yaml"

// archive is one entry of an index.
type archive struct {
	Hash     string `json:"hash"` // SHA-512, in hexadecimal
	SelfLink string `json:"selfLink"`
}

// index is what setup-envtest reads: archives by their version and name.
type index struct {
	Releases map[string]map[string]archive `json:"releases"`
}

func (p Program) index() *cobra.Command {
	var out, base, as string
	var programs []string
	cmd := &cobra.Command{
		Use:   "index --out DIR --url BASE",
		Short: "Write archives for setup-envtest, and their index",
		Long: `Write archives as setup-envtest downloads them, and their index, which is to be served
at BASE. With it, setup-envtest use --index BASE/` + IndexName + ` installs gapless.`,
		Example: `  # this program, and one that was built for another system
  gapless envtest index --out dist --url https://example.org/gapless \
    --program linux/arm64=gapless-arm64 --program darwin/arm64=gapless-mac`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			version, err := parseVersion(as)
			if err != nil {
				return p.Usage(fmt.Errorf("--as %w", err))
			}
			if u, err := url.Parse(base); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
				return p.Usage(fmt.Errorf("--url %q: want where the archives will be served, like https://example.org/gapless",
					base))
			}
			builds, err := parseBuilds(programs)
			if err != nil {
				return p.Usage(err)
			}
			return p.writeIndex(release{dir: out, url: base, version: version, builds: builds})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&out, "out", ".", "directory to write to")
	flags.StringVar(&base, "url", "", "where the directory will be served")
	flags.StringVar(&as, "as", gapless.KubernetesVersion, "version of Kubernetes in the index")
	flags.StringArrayVar(&programs, "program", nil,
		"gapless of a system, as os/arch=file; can be repeated (default this program alone)")
	return cmd
}

// build is gapless for a system.
type build struct{ system, arch, file string }

// parseBuilds reads values like linux/arm64=file.
func parseBuilds(values []string) ([]build, error) {
	if len(values) == 0 {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
		return []build{{runtime.GOOS, runtime.GOARCH, self}}, nil
	}
	word := regexp.MustCompile(`^[a-z0-9]+$`)
	seen := map[string]bool{}
	var builds []build
	for _, value := range values {
		platform, file, _ := strings.Cut(value, "=")
		system, arch, _ := strings.Cut(platform, "/")
		if !word.MatchString(system) || !word.MatchString(arch) || file == "" {
			return nil, fmt.Errorf("--program %q: want os/arch=file, like linux/arm64=gapless-arm64", value)
		}
		if seen[platform] {
			return nil, fmt.Errorf("--program %q: there is another one for %s", value, platform)
		}
		seen[platform] = true
		builds = append(builds, build{system, arch, file})
	}
	return builds, nil
}

// release is what an index is made of.
type release struct {
	dir, url, version string
	builds            []build
}

func (p Program) writeIndex(r release) error {
	if err := os.MkdirAll(r.dir, 0o755); err != nil { //nolint:gosec // it is to be served
		return fmt.Errorf("make the directory of the archives: %w", err)
	}
	archives := map[string]archive{}
	for _, b := range r.builds {
		name := fmt.Sprintf("envtest-v%s-%s-%s.tar.gz", r.version, b.system, b.arch)
		path := filepath.Join(r.dir, name)
		hash, err := writeArchive(path, b)
		if err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		link, err := url.JoinPath(r.url, name)
		if err != nil {
			return fmt.Errorf("--url: %w", err)
		}
		archives[name] = archive{Hash: hash, SelfLink: link}
		_, _ = fmt.Fprintln(p.Out, path)
	}
	body, err := yaml.Marshal(index{Releases: map[string]map[string]archive{"v" + r.version: archives}})
	if err != nil {
		return fmt.Errorf("encode the index: %w", err)
	}
	path := filepath.Join(r.dir, IndexName)
	if err := os.WriteFile(path, body, 0o644); err != nil { //nolint:gosec // it is to be served
		return fmt.Errorf("write the index: %w", err)
	}
	_, _ = fmt.Fprintln(p.Out, path)
	return nil
}

// writeArchive writes an archive with three copies of a program, and returns its SHA-512. The
// same program makes the same archive.
func writeArchive(path string, b build) (hash string, err error) {
	to, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	sum := sha512.New()
	zip := gzip.NewWriter(io.MultiWriter(to, sum))
	files := tar.NewWriter(zip)
	for _, name := range dropin.Names() {
		if b.system == "windows" {
			name += ".exe"
		}
		if err := addProgram(files, "controller-tools/envtest/"+name, b.file); err != nil {
			return "", err
		}
	}
	if err := errors.Join(files.Close(), zip.Close()); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func addProgram(files *tar.Writer, name, program string) (err error) {
	from, err := os.Open(program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	if err := files.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: info.Size(), Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err = io.Copy(files, from)
	return err
}

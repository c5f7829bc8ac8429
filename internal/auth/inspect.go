package auth

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/internal/durable"
)

// Severity says what is needed to repair a Fault.
type Severity string

// The severities of faults.
const (
	// Note needs no repair: the next start fixes it.
	Note Severity = "note"
	// Repairable is repaired by Repair.
	Repairable Severity = "repairable"
	// Beyond can only be repaired from a backup.
	Beyond Severity = "beyond repair"
)

// Fault is a problem with a file of the credentials.
type Fault struct {
	File     string // relative to the data directory
	Offset   int64  // of the first byte that is wrong; -1 if it concerns the whole file
	Found    string
	Severity Severity
	Repair   string // what Repair does, or what to do

	body []byte   // what Repair writes to File
	away []string // what Repair moves away, relative to the data directory
}

// Inspect returns the faults of the credentials below dir. It changes nothing. Errors:
// files that cannot be read.
func Inspect(dir string) ([]Fault, error) {
	in := &inspection{dir: dir, files: map[string][]byte{}}
	for _, name := range []string{
		"kubeconfig", "pki/ca.crt", "pki/ca.key", "pki/serving.crt", "pki/serving.key", "pki/admin.crt", "pki/admin.key",
		signingKeyFile,
	} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		switch {
		case err == nil:
			in.files[name] = b
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	ca := in.authority()
	for _, name := range []string{"serving", "admin"} {
		in.leaf(name, ca)
	}
	in.signingKey()
	in.kubeconfig()
	return in.faults, in.modes()
}

// Repair repairs the faults below dir that are Repairable. It moves the former files to the
// directory kept, which must exist.
func Repair(dir, kept string, faults []Fault) error {
	for _, f := range faults {
		if f.Severity != Repairable {
			continue
		}
		for _, name := range append(f.away, f.File) {
			from, to := filepath.Join(dir, name), filepath.Join(kept, filepath.Base(name))
			b, err := os.ReadFile(from)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				err = durable.WriteFile(to, b)
			}
			if err == nil && f.body == nil {
				err = os.Remove(from)
			}
			if err != nil {
				return fmt.Errorf("keep the former %s: %w", name, err)
			}
		}
		if f.body != nil {
			if err := durable.WriteFile(filepath.Join(dir, f.File), f.body); err != nil {
				return fmt.Errorf("repair %s: %w", f.File, err)
			}
		}
	}
	return nil
}

type inspection struct {
	dir    string
	files  map[string][]byte
	faults []Fault
}

func (in *inspection) add(f Fault) { in.faults = append(in.faults, f) }

const (
	createsNew = "it is moved away, and the next start creates a new one"
	noTokens   = "tokens that the former one has signed are then invalid"
	noOther    = "it cannot be recreated: every kubeconfig and client certificate depends on it; restore the file from a backup"
)

// authority checks the CA and returns its certificate, nil if there is no usable one.
func (in *inspection) authority() *x509.Certificate {
	certPEM, hasCert := in.files["pki/ca.crt"]
	keyPEM, hasKey := in.files["pki/ca.key"]
	if !hasCert && !hasKey && in.files["pki/serving.crt"] == nil && in.files["pki/admin.crt"] == nil {
		return nil // nothing was created yet
	}
	cert, certErr := parseCA(certPEM)
	key, keyErr := parseKey(keyPEM)
	if keyErr == nil && certErr == nil && !isOf(cert, key) {
		keyErr = errors.New("it is not the key of ca.crt") // which is undamaged: its signature is valid
	}
	if keyErr != nil {
		in.add(Fault{File: "pki/ca.key", Offset: -1, Found: keyErr.Error(), Severity: Beyond, Repair: noOther})
	} else {
		in.canonical("pki/ca.key")
	}
	switch {
	case certErr == nil && time.Now().After(cert.NotAfter):
		in.add(Fault{
			File: "pki/ca.crt", Offset: -1, Found: "it expired on " + cert.NotAfter.Format(time.DateOnly), Severity: Beyond,
			Repair: noOther,
		})
	case certErr == nil:
		in.canonical("pki/ca.crt")
	default:
		if copied, ok := in.copyOfCA(key); ok {
			in.add(Fault{
				File: "pki/ca.crt", Offset: difference(certPEM, copied), Found: certErr.Error(), Severity: Repairable,
				Repair: "it is restored from the copy in the kubeconfig", body: copied,
			})
			cert, _ = parseCA(copied)
			return cert
		}
		in.add(Fault{File: "pki/ca.crt", Offset: -1, Found: certErr.Error(), Severity: Beyond, Repair: noOther})
		return nil
	}
	return cert
}

// parseCA reads a certificate that has signed itself.
func parseCA(b []byte) (*x509.Certificate, error) {
	cert, err := parseCertificate(b)
	if err != nil {
		return nil, err
	}
	if !cert.IsCA || cert.CheckSignatureFrom(cert) != nil {
		return nil, errors.New("it is damaged: its signature is wrong")
	}
	return cert, nil
}

func parseCertificate(b []byte) (*x509.Certificate, error) {
	if b == nil {
		return nil, errors.New("it is missing")
	}
	block, _ := pem.Decode(b)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("it holds no certificate")
	}
	return x509.ParseCertificate(block.Bytes)
}

// isOf reports whether a certificate was made for a key.
func isOf(cert *x509.Certificate, key crypto.Signer) bool {
	public, ok := key.Public().(interface {
		Equal(other crypto.PublicKey) bool
	}) // as all of crypto's have it
	return ok && public.Equal(cert.PublicKey)
}

// copyOfCA returns the CA's certificate in the kubeconfig, if it matches the key.
func (in *inspection) copyOfCA(key crypto.Signer) ([]byte, bool) {
	k, err := parseKubeconfig(in.files["kubeconfig"])
	if err != nil || key == nil {
		return nil, false
	}
	cert, err := parseCA(k.Clusters[0].Cluster.CA)
	if err != nil || !isOf(cert, key) {
		return nil, false
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}), true
}

// canonical compares a file that can be read with its canonical encoding: bytes that no
// reader needs may be damaged too.
func (in *inspection) canonical(name string) {
	b := in.files[name]
	block, rest := pem.Decode(b)
	if len(bytes.TrimSpace(rest)) > 0 {
		return // not written by this program
	}
	want := pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})
	if key, err := parseKey(b); err == nil {
		if encoded, err := encodeKey(key); err == nil {
			want = encoded
		}
	}
	if at := difference(b, want); at >= 0 {
		in.add(Fault{
			File: name, Offset: at, Found: "a byte without effect is damaged", Severity: Repairable,
			Repair: "the file is rewritten", body: want,
		})
	}
}

// difference returns the offset at which two texts begin to differ, -1 if they are equal.
func difference(a, b []byte) int64 {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return int64(i)
		}
	}
	if len(a) == len(b) {
		return -1
	}
	return int64(min(len(a), len(b)))
}

// leaf checks a certificate that can be renewed at any time.
func (in *inspection) leaf(name string, ca *x509.Certificate) {
	certFile, keyFile := "pki/"+name+".crt", "pki/"+name+".key"
	certPEM, hasCert := in.files[certFile]
	keyPEM, hasKey := in.files[keyFile]
	if !hasCert {
		if hasKey {
			in.add(Fault{
				File: certFile, Offset: -1, Found: "it is missing", Severity: Note, Repair: "the next start recreates it",
			})
		}
		return
	}
	fault := Fault{File: certFile, Offset: -1, Severity: Repairable, Repair: createsNew, away: []string{keyFile}}
	cert, err := parseCertificate(certPEM)
	if err != nil {
		fault.Found = err.Error()
		in.add(fault)
		return
	}
	fault.File, fault.away = keyFile, []string{certFile}
	if _, err := parsePair(certPEM, keyPEM); err != nil {
		fault.Found = err.Error()
		if !hasKey {
			fault.Found = "it is missing"
		}
		in.add(fault)
		return
	}
	switch {
	case ca != nil && cert.CheckSignatureFrom(ca) != nil:
		in.add(Fault{
			File: certFile, Offset: -1, Found: "it is damaged, or signed by another CA", Severity: Note,
			Repair: "the next start recreates it",
		})
		return
	case time.Now().After(cert.NotAfter):
		in.add(Fault{
			File: certFile, Offset: -1, Found: "it expired on " + cert.NotAfter.Format(time.DateOnly), Severity: Note,
			Repair: "the next start recreates it",
		})
	}
	in.canonical(certFile)
	in.canonical(keyFile)
}

// signingKey checks the key that signs tokens of service accounts. A directory of which nothing was
// created yet, or whose tokens another key signs, has none.
func (in *inspection) signingKey() {
	b, has := in.files[signingKeyFile]
	if !has {
		if in.files["pki/ca.crt"] != nil {
			in.add(Fault{
				File: signingKeyFile, Offset: -1, Found: "it is missing", Severity: Note,
				Repair: "the next start creates a new one, unless another key signs the tokens of service accounts; " + noTokens,
			})
		}
		return
	}
	if _, err := parseSigningKey(b); err != nil {
		in.add(Fault{
			File: signingKeyFile, Offset: -1, Found: "it holds no key: " + err.Error(), Severity: Repairable,
			Repair: createsNew + "; " + noTokens,
		})
		return
	}
	in.canonical(signingKeyFile)
}

// modes reports keys that every user of the machine may read or write. A start
// refuses them. It leaves out files that have another fault.
func (in *inspection) modes() error {
	if runtime.GOOS == "windows" {
		return nil // file modes do not show permissions there
	}
	for _, name := range slices.Sorted(maps.Keys(in.files)) {
		if name != "kubeconfig" && filepath.Ext(name) != ".key" ||
			slices.ContainsFunc(in.faults, func(f Fault) bool { return f.File == name }) {
			continue
		}
		info, err := os.Stat(filepath.Join(in.dir, name))
		if err != nil {
			return err
		}
		const others = 0o006
		if mode := info.Mode().Perm(); mode&others != 0 {
			in.add(Fault{
				File: name, Offset: -1,
				Found:    fmt.Sprintf("it has mode %04o, so every user of this machine may read or write it", mode),
				Severity: Repairable, Repair: "only its owner may use it from now on; a copy that was made before still works",
				body: in.files[name],
			})
		}
	}
	return nil
}

// kubeconfigFile is what WriteKubeconfig writes.
type kubeconfigFile struct {
	Clusters []struct {
		Cluster struct {
			Server string `json:"server"`
			CA     []byte `json:"certificate-authority-data"`
		} `json:"cluster"`
	} `json:"clusters"`
}

func parseKubeconfig(b []byte) (kubeconfigFile, error) {
	var k kubeconfigFile
	if err := yaml.Unmarshal(b, &k); err != nil {
		return k, err
	}
	if len(k.Clusters) == 0 {
		return k, errors.New("it names no cluster")
	}
	return k, nil
}

// kubeconfig compares the kubeconfig with what a start writes. Which address the
// server had is known only from the file itself.
func (in *inspection) kubeconfig() {
	b := in.files["kubeconfig"]
	if b == nil {
		return
	}
	fault := Fault{File: "kubeconfig", Offset: -1, Severity: Note, Repair: "the next start rewrites it"}
	k, err := parseKubeconfig(b)
	if err != nil {
		fault.Found = err.Error()
		in.add(fault)
		return
	}
	c := Credentials{}
	c.ca.certPEM, c.admin.certPEM, c.admin.keyPEM = in.files["pki/ca.crt"], in.files["pki/admin.crt"], in.files["pki/admin.key"]
	want, err := c.encodeKubeconfig(k.Clusters[0].Cluster.Server)
	if at := difference(b, want); err == nil && at >= 0 {
		fault.Offset, fault.Found = at, "it is not what the server writes"
		in.add(fault)
	}
}

// Package builtin compares the built-in kinds of this module with those of
// k8s.io/kubernetes: which objects are accepted, what defaults are filled in, what an
// update may change, and why objects are refused. docs/conformance.md describes the
// suite. The tables that kubectl get shows are compared too.
//
// A [Manifest] is an object that upstream accepts. An [Upstream] writes objects as
// kube-apiserver does, with the strategies of its kinds. A [Gapless] writes them with this
// module's registry. A [Verdict] is what became of one write. A [Case] is a body that is
// written to both. A [Finding] is a difference of two verdicts. The [Table] has the findings
// that are known; the suite fails for one that it does not have, and for one that is not found
// any more.
//
//	go test -v .                           all kinds
//	go test -v . -run '/kinds/Service$'    one kind
//	go test -v . -show '| stricter |'      an example of each finding whose line contains this
//	go test . -update                      write the table, and docs/conformance.md
package builtin

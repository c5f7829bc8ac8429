package admissionregistration

import (
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	celgo "github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// The bounds of what one object may make the compiler do, which is about two seconds of a
// processor; upstream has none besides that of the body. Policies that are in use have tens
// of expressions, of a few KiB together.
const (
	// maxExpressions is how many expressions an object may have.
	maxExpressions = 1000
	// maxExpressionBytes is how long they may be together: 128 KiB.
	maxExpressionBytes = 128 << 10
	// maxExpressionWork bounds the sum of their lengths when each byte is counted as often as
	// a pattern in the expression may repeat it.
	maxExpressionWork = 8 << 20
)

// Patterns repeat by a{n}, a{n,} and a{n,m}, at most 1000 times (package regexp/syntax). Braces may
// hide behind escapes of strings. A class of Unicode has hundreds of ranges.
var (
	repetition = regexp.MustCompile(`\{([0-9]+)(?:,([0-9]*))?\}`)
	hidden     = regexp.MustCompile(`\\[xXuU0-7]`)
	unicodes   = regexp.MustCompile(`\\[pP]`)
)

// work is how much a text makes the compiler do, which compiles the patterns in it.
func work(text string) int {
	const most, ranges = 1000, 50
	times := 1
	if unicodes.MatchString(text) {
		times = ranges
	}
	if hidden.MatchString(text) {
		return len(text) * most
	}
	for _, found := range repetition.FindAllStringSubmatch(text, -1) {
		for _, number := range found[1:] {
			if n, err := strconv.Atoi(number); err == nil && n <= most { // others are refused as patterns
				times = max(times, n)
			}
		}
	}
	return len(text) * times
}

// expression is a text with the types of which its value must be one. Its name is that of a
// variable.
type expression struct {
	text, name string
	types      []*celgo.Type
}

// GetExpression implements admissioncel.ExpressionAccessor.
func (e expression) GetExpression() string { return unquoted(e.text) }

// ReturnTypes implements admissioncel.ExpressionAccessor.
func (e expression) ReturnTypes() []*celgo.Type { return e.types }

// GetName implements admissioncel.NamedExpressionAccessor.
func (e expression) GetName() string { return e.name }

// The compiler quotes the line of each of up to 100 errors, in time that grows with the
// square of the line, unless it is longer than longestQuoted.
const (
	longLine      = 4 << 10
	longestQuoted = 16384   // bytes: maxSnippetLength of cel-go's common/error.go
	longestText   = 100_000 // characters: expressionSizeCodePointLimit of cel-go's parser
)

// unquoted makes long lines of a text so long, with spaces at their ends, that the compiler
// does not quote them, as far as the text may be that long.
func unquoted(text string) string {
	if len(text) <= longLine {
		return text
	}
	room := longestText - utf8.RuneCountInString(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		more := longestQuoted + 1 - len(line)
		if len(line) > longLine && more > 0 && more <= room {
			lines[i] = line + strings.Repeat(" ", more)
			room -= more
		}
	}
	return strings.Join(lines, "\n")
}

// program compiles the expressions of one object.
type program struct {
	// policy knows the variables that were compiled so far, and alone only those of any
	// request. Nothing is compiled while it is nil.
	policy admissioncel.Compiler
	// stored are the expressions that the object had before the update.
	stored map[string]bool
	// params says that expressions may use the parameters of a policy.
	params bool
	// told is the length of the errors so far. Nothing is compiled behind maxTextBytes.
	told int
}

// maxTextBytes is how much text of the compiler's one answer has, and maxDetail one error: the
// answer repeats it.
const (
	maxTextBytes = 64 << 10
	maxDetail    = 16 << 10
)

// alone compiles expressions that use no variables of a policy. It is safe for concurrent use.
//
//nolint:gochecknoglobals // an immutable environment, which takes milliseconds to make
var alone = sync.OnceValue(func() admissioncel.Compiler {
	return admissioncel.NewCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
})

// withVariables returns a compiler for a policy with variables.
func withVariables() (*admissioncel.CompositedCompiler, error) {
	return admissioncel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
}

// bounded refuses an object with more to compile than the bounds allow. The path is that
// of all the expressions.
func bounded(at *field.Path, texts iter.Seq[string]) field.ErrorList {
	count, size, steps := 0, 0, 0
	for text := range texts {
		count++
		size += len(text)
		if count <= maxExpressions && size <= maxExpressionBytes {
			steps += work(text)
		}
	}
	switch {
	case count > maxExpressions:
		return field.ErrorList{
			field.Forbidden(at,
				fmt.Sprintf("has %d CEL expressions, this server compiles at most %d of one object", count, maxExpressions)),
		}
	case size > maxExpressionBytes:
		return field.ErrorList{
			field.Forbidden(at,
				fmt.Sprintf("has %d bytes of CEL expressions, this server compiles at most %d of one object",
					size, maxExpressionBytes)),
		}
	case steps > maxExpressionWork:
		return field.ErrorList{
			field.Forbidden(at,
				fmt.Sprintf("has CEL expressions with patterns that repeat too much: the lengths of the expressions, "+
					"each times the highest count of a repetition in it, are %d together, this server compiles at "+
					"most %d of one object", steps, maxExpressionWork)),
		}
	}
	return nil
}

// set collects the texts of expressions.
func set(texts iter.Seq[string]) map[string]bool {
	all := map[string]bool{}
	for text := range texts {
		all[text] = true
	}
	return all
}

// mode is how an expression is compiled: one that is stored may use what only newer
// servers know. Upstream tells the places of expressions apart for that, with the same
// result: what an object has in one place compiles in another.
func (p *program) mode(text string) environment.Type {
	if p.stored[text] {
		return environment.StoredExpressions
	}
	return environment.NewExpressions
}

// compile returns the errors of an expression.
func (p *program) compile(at *field.Path, with admissioncel.Compiler, e expression,
	given admissioncel.OptionalVariableDeclarations,
) field.ErrorList {
	if p.told > maxTextBytes {
		return nil
	}
	return p.errors(at, e.text, with.CompileCELExpression(e, given, p.mode(e.text)))
}

// variable compiles a variable, for the expressions that follow.
func (p *program) variable(at *field.Path, e expression) field.ErrorList {
	with, is := p.policy.(*admissioncel.CompositedCompiler)
	if !is {
		return field.ErrorList{field.InternalError(at, errors.New("variable composition is not allowed"))}
	}
	if p.told > maxTextBytes {
		return nil
	}
	given := admissioncel.OptionalVariableDeclarations{HasParams: p.params, HasAuthorizer: true}
	return p.errors(at.Child("expression"), e.text, with.CompileAndStoreVariable(e, given, p.mode(e.text)))
}

func (p *program) errors(at *field.Path, text string, result admissioncel.CompilationResult) field.ErrorList {
	if result.Error == nil {
		return nil
	}
	p.told += len(result.Error.Detail)
	detail := result.Error.Detail
	if len(detail) > maxDetail {
		detail = strings.ToValidUTF8(detail[:maxDetail], "") + " …"
	}
	switch result.Error.Type {
	case cel.ErrorTypeRequired:
		return field.ErrorList{field.Required(at, detail)}
	case cel.ErrorTypeInvalid:
		return field.ErrorList{field.Invalid(at, text, detail)}
	case cel.ErrorTypeInternal:
	}
	return field.ErrorList{field.InternalError(at, result.Error)}
}

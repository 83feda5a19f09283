package utility

import (
	"context"
	"math/big"
	"strings"

	"github.com/weft-automation/weft/internal/component"
)

// Limits of one calculation. Parsing and formatting decimal digits take more than linear time.
const (
	maxDigits = 100_000
	maxBits   = 332_193 // bits of the largest number with maxDigits
)

type bigintCalculate struct{}

func (bigintCalculate) Describe() component.Descriptor {
	return component.Computation{
		Module:      "BIGINT_CALCULATE",
		Title:       "Calculate with big integers",
		Description: "Calculates with integers of up to 100,000 digits. Division truncates towards zero and the remainder has the sign of left, as in Solidity and JavaScript's BigInt: 7 / -2 is -3 and 7 modulo -2 is 1, -7 / 2 is -3 and -7 modulo 2 is -1.",
		Category:    category,
		Input: `"description": "The operation and its operands.", "required": ["operation", "left", "right"], "properties": {
			"operation": {"type": "string", "title": "Operation", "description": "add, subtract (left minus right), multiply, divide (left by right, towards zero), modulo (the remainder of that division), power (left to the power of right, which must not be negative; 0 to the power of 0 is 1), min and max (the smaller and the larger one), or compare (-1 if left is smaller, 0 if both are equal, 1 if left is larger). Division by zero is an error.", "enum": ["add", "subtract", "multiply", "divide", "modulo", "power", "min", "max", "compare"], "examples": ["multiply"]},
			"left": {"type": "string", "pattern": "^-?[0-9]+$", "maxLength": 100001, "title": "Left", "description": "The first number, as a decimal string.", "examples": ["1000000000000000000"]},
			"right": {"type": "string", "pattern": "^-?[0-9]+$", "maxLength": 100001, "title": "Right", "description": "The second number, as a decimal string.", "examples": ["3"]}
		}, "examples": [{"operation": "multiply", "left": "1000000000000000000", "right": "3"}, {"operation": "divide", "left": "-7", "right": "2"}]`,
		Output: `"description": "The result.", "required": ["result"], "properties": {
			"result": {"type": "string", "pattern": "^(0|-?[1-9][0-9]*)$", "title": "Result", "description": "The result, as a decimal string without leading zeros.", "examples": ["3000000000000000000"]}
		}`,
	}.Descriptor()
}

func (bigintCalculate) Run(_ context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct{ Operation, Left, Right string }](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	left, err := parseInteger("left", input.Left)
	if err != nil {
		return component.Result{}, err
	}
	right, err := parseInteger("right", input.Right)
	if err != nil {
		return component.Result{}, err
	}
	number, err := calculate(input.Operation, left, right)
	if err != nil {
		return component.Result{}, err
	}
	if number.BitLen() > maxBits {
		return component.Result{}, errTooManyDigits()
	}
	result := number.String()
	if len(strings.TrimPrefix(result, "-")) > maxDigits {
		return component.Result{}, errTooManyDigits()
	}
	return component.Encode(map[string]string{"result": result})
}

// parseInteger parses a decimal string. It returns INVALID_INPUT if the string is invalid. Errors
// don't quote it.
func parseInteger(field, text string) (*big.Int, error) {
	digits := strings.TrimPrefix(text, "-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return nil, component.Permanent(component.CodeInvalidInput, "%s must be a whole number in decimal digits, with an optional minus sign", field)
	}
	if len(digits) > maxDigits {
		return nil, component.Permanent(component.CodeInvalidInput, "%s must have at most %d digits, got %d", field, maxDigits, len(digits))
	}
	number, ok := new(big.Int).SetString(text, 10)
	if !ok {
		return nil, component.Permanent(component.CodeInvalidInput, "%s must be a whole number in decimal digits", field)
	}
	return number, nil
}

func errTooManyDigits() error {
	return component.Permanent(component.CodeInvalidInput, "the result has more than %d digits", maxDigits)
}

func calculate(operation string, left, right *big.Int) (*big.Int, error) {
	result := new(big.Int)
	switch operation {
	case "add":
		return result.Add(left, right), nil
	case "subtract":
		return result.Sub(left, right), nil
	case "multiply":
		return result.Mul(left, right), nil
	case "divide", "modulo":
		if right.Sign() == 0 {
			return nil, component.Permanent(component.CodeInvalidInput, "right must not be 0 if operation is %s", operation)
		}
		if operation == "divide" {
			return result.Quo(left, right), nil
		}
		return result.Rem(left, right), nil
	case "power":
		return power(left, right)
	case "min", "max":
		if (left.Cmp(right) < 0) == (operation == "min") {
			return left, nil
		}
		return right, nil
	case "compare":
		return big.NewInt(int64(left.Cmp(right))), nil
	}
	return nil, component.Permanent(component.CodeInvalidInput, "operation must be add, subtract, multiply, divide, modulo, power, min, max or compare")
}

// power computes base^exponent. It returns an error without computing anything if the result would
// be too large.
func power(base, exponent *big.Int) (*big.Int, error) {
	if exponent.Sign() < 0 {
		return nil, component.Permanent(component.CodeInvalidInput, "right must not be negative if operation is power")
	}
	if base.CmpAbs(big.NewInt(1)) <= 0 { // any exponent is allowed
		if exponent.Sign() == 0 || base.Sign() < 0 && exponent.Bit(0) == 0 {
			return big.NewInt(1), nil
		}
		return base, nil
	}
	// A number of n bits is at least 2^(n-1).
	if !exponent.IsInt64() || exponent.Int64() > int64(maxBits/(base.BitLen()-1)) {
		return nil, errTooManyDigits()
	}
	return new(big.Int).Exp(base, exponent, nil), nil
}

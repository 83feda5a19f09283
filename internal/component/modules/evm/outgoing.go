package evm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// The kinds of transaction that are built and signed.
const (
	typeEIP1559 = "eip1559"
	typeLegacy  = "legacy"
)

// outgoing is a transaction that is to be signed: one of EIP-1559, or a legacy
// one with the chain's id in what is signed (EIP-155). Without that, whoever
// sees it could send it on every chain.
type outgoing struct {
	legacy               bool
	chainID              *big.Int
	nonce                uint64
	to                   *common.Address // nil: a contract is created
	value                *big.Int
	data                 []byte
	gasLimit             uint64
	gasPrice             *big.Int // of a legacy one
	maxPriorityFeePerGas *big.Int
	maxFeePerGas         *big.Int
	accessList           []accessTuple
	from                 *common.Address // who is expected to sign
}

// accessTuple is what a transaction says beforehand that it will touch (EIP-2930).
type accessTuple struct {
	Address     common.Address
	StorageKeys []common.Hash
}

// dynamicFeeType is the type of EIP-1559 in the envelope of EIP-2718.
const dynamicFeeType = 2

// unsigned is the transaction in the form whose hash is signed.
func (t *outgoing) unsigned() ([]byte, error) {
	if t.legacy {
		return t.encoded(t.chainID, uint(0), uint(0))
	}
	return t.encoded()
}

// signed is the transaction as nodes take it.
func (t *outgoing) signed(signature signature65) ([]byte, error) {
	if !t.legacy {
		return t.encoded(uint(signature.yParity()), signature.r(), signature.s())
	}
	v := new(big.Int).Lsh(t.chainID, 1)
	v.Add(v, big.NewInt(35+int64(signature.yParity())))
	return t.encoded(v, signature.r(), signature.s())
}

func (t *outgoing) encoded(end ...any) ([]byte, error) {
	to := []byte{}
	if t.to != nil {
		to = t.to[:]
	}
	if t.legacy {
		return rlp.EncodeToBytes(append([]any{t.nonce, t.gasPrice, t.gasLimit, to, t.value, t.data}, end...))
	}
	fields := []any{t.chainID, t.nonce, t.maxPriorityFeePerGas, t.maxFeePerGas, t.gasLimit, to, t.value, t.data, t.accessList}
	list, err := rlp.EncodeToBytes(append(fields, end...))
	return append([]byte{dynamicFeeType}, list...), err
}

// hash is what is signed.
func (t *outgoing) hash() (common.Hash, error) {
	data, err := t.unsigned()
	return crypto.Keccak256Hash(data), err
}

// check says what no chain would take.
func (t *outgoing) check() error {
	numbers := map[string]*big.Int{"chainId": t.chainID, "value": t.value, "gasPrice": t.gasPrice, "maxFeePerGas": t.maxFeePerGas, "maxPriorityFeePerGas": t.maxPriorityFeePerGas}
	for name, number := range numbers {
		if number != nil && number.BitLen() > 256 {
			return under(misfitf("expected a number of at most 256 bits"), "."+name)
		}
	}
	switch {
	case t.chainID.Sign() == 0:
		return under(misfitf("expected the id of a chain, 1 or more: without it the transaction would hold on every chain (EIP-155)"), ".chainId")
	case t.nonce == 1<<64-1:
		return under(misfitf("expected at most 2^64-2 (EIP-2681)"), ".nonce")
	case !t.legacy && t.maxPriorityFeePerGas.Cmp(t.maxFeePerGas) > 0:
		return under(misfitf("expected at most maxFeePerGas, which is %s, got %s", t.maxFeePerGas, t.maxPriorityFeePerGas), ".maxPriorityFeePerGas")
	case t.to == nil && len(t.data) == 0:
		return under(misfitf("is missing; only a transaction that creates a contract has none, and that has the contract's code as data"), ".to")
	}
	return nil
}

// parseOutgoing reads the input `transaction`: an object, or an unsigned
// transaction in hexadecimal digits.
func parseOutgoing(raw json.RawMessage) (*outgoing, error) {
	value, err := strictjson.Decode(raw)
	if err != nil {
		return nil, errors.New("expected a transaction")
	}
	var t *outgoing
	switch value := value.(type) {
	case string:
		t, err = parseSerialized(value)
	case map[string]any:
		t, err = parseMembers(value)
	default:
		return nil, misfitf("expected an object or an unsigned transaction as hexadecimal digits, got %s", came(value))
	}
	if err == nil {
		err = t.check()
	}
	return t, err
}

// The unsigned forms, as RLP has them.
type (
	serializedLegacy struct {
		Nonce    uint64
		GasPrice *big.Int
		GasLimit uint64
		To       *common.Address `rlp:"nil"`
		Value    *big.Int
		Data     []byte
		ChainID  *big.Int
		R, S     uint64 // both are 0
	}
	serializedDynamicFee struct {
		ChainID                            *big.Int
		Nonce                              uint64
		MaxPriorityFeePerGas, MaxFeePerGas *big.Int
		GasLimit                           uint64
		To                                 *common.Address `rlp:"nil"`
		Value                              *big.Int
		Data                               []byte
		AccessList                         []accessTuple
	}
)

func parseSerialized(text string) (*outgoing, error) {
	data, err := parseBytes(text)
	if err != nil || len(data) == 0 {
		return nil, misfitf("expected an unsigned transaction, 0x and pairs of hexadecimal digits, got %s", came(text))
	}
	var t *outgoing
	switch {
	case data[0] >= 0xc0: // an RLP list
		var s serializedLegacy
		if err := rlp.DecodeBytes(data, &s); err != nil || s.R != 0 || s.S != 0 {
			return nil, misfitf("expected an unsigned legacy transaction (EIP-155: nonce, gasPrice, gasLimit, to, value, data, chainId, 0, 0), got another list")
		}
		t = &outgoing{legacy: true, chainID: s.ChainID, nonce: s.Nonce, gasPrice: s.GasPrice, gasLimit: s.GasLimit, to: s.To, value: s.Value, data: s.Data}
	case data[0] == dynamicFeeType:
		var s serializedDynamicFee
		if err := rlp.DecodeBytes(data[1:], &s); err != nil {
			return nil, misfitf("expected an unsigned transaction of EIP-1559 (0x02 and 9 fields), got another one")
		}
		t = &outgoing{
			chainID: s.ChainID, nonce: s.Nonce, maxPriorityFeePerGas: s.MaxPriorityFeePerGas, maxFeePerGas: s.MaxFeePerGas,
			gasLimit: s.GasLimit, to: s.To, value: s.Value, data: s.Data, accessList: s.AccessList,
		}
	default:
		return nil, misfitf("expected an unsigned transaction, legacy or of the type 2 (EIP-1559), got the type %d", data[0])
	}
	if again, err := t.unsigned(); err != nil || !bytes.Equal(again, data) {
		return nil, errors.New("the transaction is not in the one form that chains take")
	}
	return t, nil
}

// members reads the members of an object and keeps the first thing that is
// wrong with one.
type members struct {
	of   map[string]any
	err  error
	seen int
}

func (m *members) take(name string) (any, bool) {
	value, ok := m.of[name]
	if ok {
		m.seen++
	}
	return value, ok && value != nil
}

func (m *members) fail(name string, err error) {
	if err != nil && m.err == nil {
		m.err = under(err, "."+name)
	}
}

// number reads an integer; one that is missing is an error unless there is
// another for it.
func (m *members) number(name string, bits int, missing *big.Int) *big.Int {
	value, ok := m.take(name)
	if !ok {
		if missing == nil {
			m.fail(name, errors.New("is missing: expected a decimal string"))
			missing = new(big.Int)
		}
		return missing
	}
	if given, ok := value.(json.Number); ok {
		if text, ok := exactDigits(given); ok {
			value = text
		}
	}
	number, err := decimalOf(value, bits)
	if err != nil {
		m.fail(name, err)
		return new(big.Int)
	}
	return number
}

func (m *members) address(name string) *common.Address {
	value, ok := m.take(name)
	if !ok {
		return nil
	}
	text, _ := value.(string)
	address, err := parseAddress(text)
	m.fail(name, err)
	return &address
}

func (m *members) bytes(name string) []byte {
	value, ok := m.take(name)
	if !ok {
		return nil
	}
	text, _ := value.(string)
	data, err := parseBytes(text)
	m.fail(name, err)
	return data
}

func parseMembers(of map[string]any) (*outgoing, error) {
	m := &members{of: of}
	kind, named := m.take("type")
	_, priced := of["gasPrice"]
	if !named && priced {
		kind = typeLegacy
	} else if !named {
		kind = typeEIP1559
	}
	if kind != typeLegacy && kind != typeEIP1559 {
		return nil, under(misfitf("expected eip1559 or legacy, got %s", came(kind)), ".type")
	}
	t := &outgoing{
		legacy: kind == typeLegacy, chainID: m.number("chainId", 256, nil), nonce: m.number("nonce", 64, nil).Uint64(),
		to: m.address("to"), value: m.number("value", 256, new(big.Int)), data: m.bytes("data"),
		gasLimit: m.number("gasLimit", 64, nil).Uint64(), from: m.address("from"),
	}
	if t.legacy {
		t.gasPrice = m.number("gasPrice", 256, nil)
	} else {
		t.maxFeePerGas, t.maxPriorityFeePerGas = m.number("maxFeePerGas", 256, nil), m.number("maxPriorityFeePerGas", 256, nil)
		list, _ := m.take("accessList")
		var err error
		t.accessList, err = parseAccessList(list)
		m.fail("accessList", err)
	}
	if m.err == nil && m.seen < len(of) {
		return nil, unknownMember(of, t.legacy)
	}
	return t, m.err
}

// unknownMember refuses what would be left out of what is signed.
func unknownMember(of map[string]any, legacy bool) error {
	known := map[string]bool{"type": true, "chainId": true, "nonce": true, "to": true, "value": true, "data": true, "gasLimit": true, "from": true}
	kind, fees := typeEIP1559, []string{"maxFeePerGas", "maxPriorityFeePerGas", "accessList"}
	if legacy {
		kind, fees = typeLegacy, []string{"gasPrice"}
	}
	for _, name := range fees {
		known[name] = true
	}
	for name := range of {
		if !known[name] {
			return fmt.Errorf("has the member %s, which a transaction of the type %s has not", came(name), kind)
		}
	}
	return nil
}

func parseAccessList(value any) ([]accessTuple, error) {
	if value == nil {
		return nil, nil
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var list []struct {
		Address     string
		StorageKeys []string
	}
	if json.Unmarshal(encoded, &list) != nil {
		return nil, misfitf("expected an array of objects with address and storageKeys")
	}
	tuples := make([]accessTuple, len(list))
	for i, entry := range list {
		if tuples[i].Address, err = parseAddress(entry.Address); err != nil {
			return nil, under(err, fmt.Sprintf("[%d].address", i))
		}
		for k, text := range entry.StorageKeys {
			key, err := parseHash(text)
			if err != nil {
				return nil, under(err, fmt.Sprintf("[%d].storageKeys[%d]", i, k))
			}
			tuples[i].StorageKeys = append(tuples[i].StorageKeys, key)
		}
	}
	return tuples, nil
}

package modules

// source lists the tests of a module: cases from independent sources, invalid inputs, and fuzz
// targets for its decoders. Paths are relative to this folder; tests are written as "file:Test".
type source struct {
	module string
	golden []golden
	bad    string   // the test with invalid inputs
	fuzz   []string // fuzz targets of its decoders, in addition to FuzzCalls
	plain  string   // why there are no fuzz targets
}

// golden is a set of cases from independent sources, and the test that runs them.
type golden struct {
	test string
	from string // the sources, separated by "; ", as named in the file with the cases
	file string // the file with the cases; "" if they are in the test
	at   string // the list in the file, or the method
}

// Tests that several modules share.
const (
	noObject  = "calls_test.go:TestEveryModuleRejectsNonObjects"
	calls     = "calls_test.go:FuzzCalls"
	refused   = "logic/logic_test.go:TestInvalidCallsFail"
	bounds    = "logic/logic_test.go:TestSchemaRejectsOutOfRangeValues"
	configs   = "logic/fuzz_test.go:FuzzConfigs"
	outcomes  = "logic/fuzz_test.go:FuzzOutcomes"
	languages = "../expression/expression_test.go:FuzzRun"
	schemas   = "../given_test.go:FuzzSchemas"
	asked     = "evm/answers_test.go:TestInvalidNodeQuerySendsNothing"
	askedToo  = "evm/rpc_test.go:TestInvalidInputSendsNothing"
	scalars   = "evm/rpc_test.go:FuzzScalars"
	answers   = "evm/rpc_test.go:FuzzAnswer"
	reverts   = "evm/interface_test.go:FuzzRevertWithABI"
	abis      = "evm/decode_result_test.go:FuzzInterfaces"
	secrets   = "evm/sign_transaction_test.go:FuzzPrivateKeys"
	addresses = "../../platform/egress/url_test.go:FuzzCheckCallbackURL"
	isValue   = "its config is its output: a value of JSON"
)

// others are stored outputs of other implementations of the control flow modules.
func others(from string) golden {
	return golden{"logic/golden_test.go:TestOutcomesMatchOtherImplementations", from, "logic/testdata/golden.json", "cases"}
}

// byExpr compares expressions with expr itself.
var byExpr = golden{"logic/golden_test.go:TestExpressionsMatchExpr", "github.com/expr-lang/expr", "", ""}

// interpreted compares random workflows with a reference interpreter, which was written for the
// tests from the decisions. There are no published cases for Weft's control flow.
var interpreted = golden{"../../workflow/run/random_test.go:TestRandomRunsMatchReference", "decisions 8.2 to 8.6", "../../workflow/workflowtest/reference.go", ""}

// exchanged are exchanges with a node from the tests of the Ethereum Execution API specification.
func exchanged(method string) golden {
	return golden{"evm/exchanges_test.go:TestPublishedExchangesAreReproduced", "github.com/ethereum/execution-apis", "evm/testdata/exchanges.io", method}
}

// recorded are requests of viem and ethers to a node, with its responses and the outputs of the
// libraries.
var recorded = golden{"evm/recorded_test.go:TestResponsesDecodeAsInOtherImplementations", "viem 2.57.20; ethers 6.17.0", "evm/testdata/recorded.json", "cases"}

// computed are values that viem and ethers compute identically.
func computed(test, list string) golden {
	return golden{"evm/vectors_test.go:" + test, "viem 2.57.20; ethers 6.17.0", "evm/testdata/vectors.json", list}
}

var sources = []source{
	{module: "ON_API_CALLED", golden: []golden{others("ajv 8.20.0"), interpreted}, bad: "logic/logic_test.go:TestConfigIsValidatedWhenSaved", fuzz: []string{configs, schemas}},
	{module: "ON_SCHEDULE", golden: []golden{others("croner 11.0.0")}, bad: "logic/logic_test.go:TestConfigIsValidatedWhenSaved", fuzz: []string{"../../kit/cron/cron_test.go:FuzzParse", configs}},
	{module: "ON_WEBHOOK", bad: "logic/logic_test.go:TestConfigIsValidatedWhenSaved", fuzz: []string{"../../workflow/hook/verify_test.go:FuzzVerified", "../../workflow/hook/verify_test.go:FuzzRunInput", configs}, golden: []golden{
		{"../../workflow/hook/verify_test.go:TestGitHubExampleIsVerified", "GitHub's documentation", "", ""},
		{"../../workflow/hook/verify_test.go:TestStandardWebhooksExampleIsVerified", "github.com/standard-webhooks/standard-webhooks", "", ""},
	}},
	{module: "IF", golden: []golden{byExpr, interpreted}, bad: refused, fuzz: []string{outcomes, languages, configs}},
	{module: "SWITCH", golden: []golden{byExpr, interpreted}, bad: refused, fuzz: []string{outcomes, languages, configs}},
	{module: "FOR_EACH", golden: []golden{interpreted}, bad: bounds, plain: "its input is a JSON array"},
	{module: "REPEAT", golden: []golden{interpreted}, bad: bounds, plain: "its state is any JSON value"},
	{module: "CONTINUE", golden: []golden{interpreted}, bad: bounds, plain: "its state is any JSON value"},
	{module: "TRANSFORM", golden: []golden{byExpr, interpreted}, bad: refused, fuzz: []string{outcomes, languages, configs}},
	{module: "ARRAY_BUILDER", golden: []golden{others("Node 20.20.2; ajv 8.20.0")}, bad: refused, fuzz: []string{outcomes}},
	{module: "STRING_CONSTANT", golden: []golden{others("ajv 8.20.0")}, bad: refused, plain: isValue},
	{module: "NUMBER_CONSTANT", golden: []golden{others("ajv 8.20.0"), interpreted}, bad: refused, plain: isValue},
	{module: "BOOLEAN_CONSTANT", golden: []golden{others("ajv 8.20.0")}, bad: refused, plain: isValue},
	{module: "JSON_CONSTANT", golden: []golden{others("ajv 8.20.0")}, bad: refused, plain: isValue},
	{module: "DELAY", golden: []golden{others("@js-temporal/polyfill 0.5.1"), interpreted}, bad: "logic/logic_test.go:TestWaitsAreDue", fuzz: []string{"logic/fuzz_test.go:FuzzDue"}},
	{module: "WAIT_UNTIL", golden: []golden{others("@js-temporal/polyfill 0.5.1")}, bad: "logic/logic_test.go:TestWaitsAreDue", fuzz: []string{"logic/fuzz_test.go:FuzzDue", "../../kit/timestamp/timestamp_test.go:FuzzParse"}},
	{module: "WAIT_FOR_SIGNAL", golden: []golden{interpreted}, bad: bounds, plain: "a signal is a body of JSON, like that of every request"},
	{module: "RUN_WORKFLOW", golden: []golden{{"../../workflow/run/child_test.go:TestRandomChildRunsMatchReference", interpreted.from, interpreted.file, ""}}, bad: bounds, fuzz: []string{calls, schemas}},
	{module: "RESPOND", golden: []golden{interpreted}, bad: bounds, plain: "its input is its output"},
	{module: "FAIL", golden: []golden{interpreted}, bad: bounds, plain: "its config is the error"},

	{module: "API_CALL", bad: "apicall/apicall_test.go:TestInvalidCallIsRejected", fuzz: []string{"apicall/request_test.go:FuzzRequest", "apicall/path_test.go:FuzzPath", "apicall/path_test.go:FuzzAnswer", "upstream/upstream_test.go:FuzzExcerpt", "../template/address_test.go:FuzzAddress", addresses}, golden: []golden{
		{"apicall/golden_test.go:TestRequestsMatchAnotherImplementation", "fetch of Node 20.20.2", "apicall/testdata/golden.json", "requests"},
		{"apicall/golden_test.go:TestResponsesMatchAnotherImplementation", "fetch of Node 20.20.2", "apicall/testdata/golden.json", "answers"},
		{"apicall/golden_test.go:TestResponsesMatchAnotherImplementation", "lodash 4.18.1", "apicall/testdata/golden.json", "paths"},
		{"apicall/golden_test.go:TestRedirectsResolveAsRFC3986Says", "RFC 3986, section 5.4", "", ""},
		{"apicall/golden_test.go:TestRFC9110ExampleIsDecoded", "RFC 9110, section 3.9; RFC 9112", "", ""},
	}},

	{module: "RANDOM_UUID", bad: noObject, plain: "it has no inputs", golden: []golden{
		{"utility/utility_test.go:TestRandomUUIDIsVersion4", "RFC 9562", "", ""}, {"utility/random_test.go:TestRandomOutputPassesNISTTests", "NIST SP 800-22", "", ""},
	}},
	{module: "RANDOM_HEX", golden: []golden{{"utility/random_test.go:TestRandomOutputPassesNISTTests", "NIST SP 800-22", "", ""}}, bad: "utility/utility_test.go:TestRandomHexReturnsTheRequestedBytes", plain: "its input is a number"},
	{module: "HASH", golden: []golden{{"utility/utility_test.go:TestHashPassesThePublishedVectors", "FIPS 180-4; Keccak team's test vectors; RFC 7693; RIPEMD-160 paper", "", ""}}, bad: "utility/utility_test.go:TestHashAcceptsEveryEncoding", fuzz: []string{"utility/decode_test.go:FuzzDecode"}},
	{module: "HMAC", bad: "utility/hmac_test.go:TestHMACErrorNamesFieldAndHidesKey", fuzz: []string{"utility/decode_test.go:FuzzDecode"}, golden: []golden{
		{"utility/hmac_test.go:TestHMACPassesThePublishedVectors", "RFC 4231; RFC 2202", "", ""}, {"utility/hmac_test.go:TestHMACEncodesTheCode", "RFC 7515", "", ""},
	}},
	{module: "ENCODE", golden: []golden{{"utility/encode_test.go:TestEncodePassesThePublishedVectors", "RFC 4648; RFC 7515; Bitcoin Core; RFC 3629", "", ""}}, bad: "utility/encode_test.go:TestEncodeErrorNamesField", fuzz: []string{"utility/encode_test.go:FuzzEncode", "utility/decode_test.go:FuzzDecode"}},
	{module: "DECODE", golden: []golden{{"utility/decode_test.go:TestDecodePassesThePublishedVectors", "RFC 7515", "", ""}}, bad: "utility/decode_test.go:TestDecodeErrorNamesField", fuzz: []string{"utility/decode_test.go:FuzzDecode"}},
	{module: "JSON_PARSE", golden: []golden{{"utility/json_parse_test.go:TestJSONParseReturnsTheValue", "RFC 8259", "", ""}}, bad: "utility/json_parse_test.go:TestJSONParseErrorHasReasonAndPointer", fuzz: []string{"utility/json_parse_test.go:FuzzJSONParse", "../../kit/strictjson/strictjson_test.go:FuzzCheck"}},
	{module: "JSON_STRINGIFY", golden: []golden{{"utility/json_stringify_test.go:TestJSONStringifyMatchesJavaScript", "JSON.stringify of Node 20", "", ""}}, bad: "utility/json_stringify_test.go:TestJSONStringifyErrorNamesField", fuzz: []string{"utility/json_stringify_test.go:FuzzIndentedSize"}},
	{module: "BIGINT_CALCULATE", bad: "utility/bigint_calculate_test.go:TestBigintCalculateErrorNamesField", fuzz: []string{"utility/bigint_calculate_test.go:FuzzBigintCalculate"}, golden: []golden{
		{"utility/bigint_calculate_test.go:TestBigintCalculateRounds", "Solidity documentation", "", ""}, {"utility/bigint_calculate_test.go:TestBigintCalculateMatchesJavaScript", "BigInt", "utility/testdata/independent.mjs", "bigint"},
	}},
	{module: "CONVERT_UNITS", bad: "utility/convert_units_test.go:TestConvertUnitsErrorNamesField", fuzz: []string{"utility/convert_units_test.go:FuzzConvertUnits"}, golden: []golden{
		{"utility/convert_units_test.go:TestConvertUnitsIsExact", "Solidity documentation; viem's documentation", "", ""}, {"utility/convert_units_test.go:TestConvertUnitsMatchesJavaScript", "BigInt", "utility/testdata/independent.mjs", "units"},
	}},
	{module: "FORMAT_DATE", bad: "utility/format_date_test.go:TestFormatDateErrorNamesField", fuzz: []string{"utility/format_date_test.go:FuzzFormatDate", "../../kit/timestamp/timestamp_test.go:FuzzParse"}, golden: []golden{
		{"utility/format_date_test.go:TestFormatDateAcceptsRFC3339", "RFC 3339, section 5.8", "", ""}, {"utility/format_date_test.go:TestFormatDateSupportsStrftimeConversions", "GNU date (coreutils 9)", "", ""},
		{"utility/format_date_test.go:TestFormatDateMatchesJavaScript", "Intl of Node", "utility/testdata/independent.mjs", "date"},
	}},
	{module: "REGEX_MATCH", golden: []golden{{"utility/regex_match_test.go:TestRegexMatchMatchesJavaScript", "Node", "utility/testdata/independent.mjs", "regex"}}, bad: "utility/regex_match_test.go:TestRegexMatchErrorNamesField", fuzz: []string{"utility/regex_match_test.go:FuzzRegexMatch"}},
	{module: "GENERATE_AGE_ENCRYPTION", golden: []golden{{"utility/age_independent_test.go:TestGenerateAgeEncryptionReturnsX25519Pairs", "RFC 7748; BIP-173; age's documentation", "", ""}}, bad: noObject, plain: "it has no inputs"},
	{module: "AGE_ENCRYPT", golden: []golden{{"utility/age_independent_test.go:TestAgeEncryptOutputIsReadByIndependentReader", "age-encryption.org/v1; C2SP", "", ""}}, bad: "utility/age_encrypt_test.go:TestAgeEncryptErrorNamesFieldAndHidesData", fuzz: []string{"utility/generate_age_encryption_test.go:FuzzParseIdentity", "utility/decode_test.go:FuzzDecode"}},
	{module: "AGE_DECRYPT", golden: []golden{{"utility/age_decrypt_test.go:TestAgeDecryptPassesThePublishedVectors", "https://c2sp.org/CCTV/age", "", ""}}, bad: "utility/age_decrypt_test.go:TestAgeDecryptErrorNamesFieldAndHidesIdentity", fuzz: []string{"utility/age_decrypt_test.go:FuzzAgeDecrypt", "utility/generate_age_encryption_test.go:FuzzParseIdentity"}},

	{module: "GET_EVM_ACCOUNT_BALANCE", golden: []golden{exchanged("eth_getBalance"), recorded}, bad: askedToo, fuzz: []string{scalars, answers, addresses}},
	{module: "READ_EVM_CONTRACT", golden: []golden{exchanged("eth_call"), recorded}, bad: askedToo, fuzz: []string{scalars, answers, reverts, abis, addresses}},
	{module: "GET_EVM_CHAIN_ID", golden: []golden{exchanged("eth_chainId")}, bad: asked, fuzz: []string{answers, addresses}},
	{module: "GET_EVM_NONCE", golden: []golden{exchanged("eth_getTransactionCount")}, bad: asked, fuzz: []string{scalars, answers, addresses}},
	{module: "GET_EVM_GAS_PRICE", golden: []golden{recorded}, bad: asked, fuzz: []string{"evm/fees_test.go:FuzzFees", answers, addresses}},
	{module: "GET_EVM_LOGS", golden: []golden{exchanged("eth_getLogs")}, bad: asked, fuzz: []string{"evm/answers_test.go:FuzzLogsAnswer", scalars, abis, addresses}},
	{module: "GET_EVM_BLOCK", golden: []golden{exchanged("eth_getBlockByNumber"), exchanged("eth_getBlockByHash")}, bad: asked, fuzz: []string{"evm/answers_test.go:FuzzBlockAnswer", scalars, addresses}},
	{module: "GET_EVM_TRANSACTION", golden: []golden{exchanged("eth_getTransactionByHash")}, bad: asked, fuzz: []string{"evm/answers_test.go:FuzzTransactionAnswer", scalars, addresses}},
	{module: "GET_EVM_TRANSACTION_RECEIPT", golden: []golden{exchanged("eth_getTransactionReceipt")}, bad: asked, fuzz: []string{"evm/answers_test.go:FuzzReceiptAnswer", scalars, addresses}},
	{module: "ESTIMATE_EVM_GAS", golden: []golden{exchanged("eth_estimateGas"), recorded}, bad: asked, fuzz: []string{scalars, answers, reverts, abis, addresses}},
	{module: "RESOLVE_ENS_NAME", bad: asked, fuzz: []string{"evm/ens_test.go:FuzzENSNames", "evm/answers_test.go:FuzzENSAnswer", scalars, addresses}, golden: []golden{
		recorded, {"evm/ens_test.go:TestNamesAreNormalizedAndHashedAsViemDoes", "viem 2.57.20", "evm/testdata/names.json", "cases"},
	}},
	{module: "BUILD_EVM_TRANSACTION", golden: []golden{{"evm/build_test.go:TestTransactionsAreSerializedAsViemDoes", "viem 2.57.20", "evm/testdata/built.json", "cases"}}, bad: asked, fuzz: []string{scalars, answers, "evm/fees_test.go:FuzzFees", reverts, abis, addresses}},
	{module: "BROADCAST_EVM_TRANSACTION", golden: []golden{exchanged("eth_sendRawTransaction")}, bad: asked, fuzz: []string{"evm/answers_test.go:FuzzTransactionsToSend", scalars, answers, addresses}},
	{module: "WAIT_FOR_EVM_TRANSACTION", golden: []golden{recorded}, bad: askedToo, fuzz: []string{scalars, answers, "evm/answers_test.go:FuzzReceiptAnswer", addresses}},
	{module: "BUILD_EVM_CALLDATA", golden: []golden{{"evm/build_calldata_test.go:TestCalldataMatchesSolidityDocumentation", "Solidity documentation", "", ""}, computed("TestCalldataMatchesOtherImplementations", "calls")}, bad: "evm/build_calldata_test.go:TestInvalidArgumentIsReportedWithItsPath", fuzz: []string{"evm/decode_result_test.go:FuzzArguments", abis}},
	{module: "DECODE_EVM_FUNCTION_RESULT", golden: []golden{computed("TestCalldataMatchesOtherImplementations", "calls")}, bad: "evm/decode_result_test.go:TestValueThatDoesNotFitItsTypeIsRejected", fuzz: []string{"evm/decode_result_test.go:FuzzDecodedResults", abis, scalars}},
	{module: "DECODE_EVM_LOG", golden: []golden{computed("TestLogsMatchOtherImplementations", "logs")}, bad: "evm/decode_log_test.go:TestEventIsDeterminedByTopics", fuzz: []string{"evm/decode_log_test.go:FuzzLogs", abis, scalars}},
	{module: "SIGN_EVM_TRANSACTION", bad: "evm/sign_transaction_test.go:TestInvalidTransactionIsRejected", fuzz: []string{"evm/sign_transaction_test.go:FuzzSerializedTransactions", "evm/message_test.go:FuzzSignatures", secrets, scalars}, golden: []golden{
		{"evm/sign_transaction_test.go:TestSignatureMatchesEIP155Example", "EIP-155", "", ""}, {"evm/sign_transaction_test.go:TestEIP1559SignatureMatchesEthAccount", "eth-account", "", ""}, computed("TestTransactionSignaturesMatchOtherImplementations", "transactions"),
	}},
	{module: "COMPUTE_EVM_ADDRESS", golden: []golden{{"evm/compute_address_test.go:TestAddressIsDerivedFromPublicKey", "SEC 2", "", ""}, computed("TestAddressesMatchOtherImplementations", "keys")}, bad: "evm/compute_address_test.go:TestAddressIsDerivedFromPublicKey", fuzz: []string{"evm/compute_address_test.go:FuzzPublicKeys"}},
	{module: "GET_EVM_DERIVATION_PATH", bad: "evm/compute_address_test.go:TestDerivationPathsHaveTheFormOfBIP44", plain: "its inputs are numbers", golden: []golden{
		{"evm/path_test.go:TestDerivationPathMatchesOtherImplementations", "ethers 6.17.0", "evm/testdata/paths.json", "cases"}, {"evm/path_test.go:TestDerivationPathMatchesOtherImplementations", "BIP-32", "", ""},
	}},
	{module: "SIGN_EVM_MESSAGE", golden: []golden{{"evm/message_test.go:TestMessageSignaturesMatchPublishedExamples", "ethers; web3.js", "", ""}, computed("TestMessageSignaturesMatchOtherImplementations", "messages")}, bad: "evm/message_test.go:TestInvalidMessageIsRejected", fuzz: []string{secrets, scalars}},
	{module: "VERIFY_EVM_MESSAGE", golden: []golden{computed("TestMessageSignaturesMatchOtherImplementations", "messages")}, bad: "evm/message_test.go:TestInvalidMessageIsRejected", fuzz: []string{"evm/message_test.go:FuzzSignatures", scalars}},
	{module: "SIGN_EVM_TYPED_DATA", golden: []golden{{"evm/typed_data_test.go:TestSignatureMatchesEIP712Example", "EIP-712", "", ""}, computed("TestTypedDataSignaturesMatchOtherImplementations", "typedData")}, bad: "evm/typed_data_test.go:TestTypedDataIsReadStrictly", fuzz: []string{"evm/typed_data_test.go:FuzzTypedData", secrets}},
	{module: "ERC20_ABI_CONSTANT", golden: []golden{{"evm/interface_test.go:TestABIConstantsMatchTheirEIPs", "OpenZeppelin's documentation", "", ""}}, bad: noObject, plain: "it has no inputs"},
	{module: "ERC721_ABI_CONSTANT", golden: []golden{{"evm/interface_test.go:TestABIConstantsMatchTheirEIPs", "EIP-721", "", ""}}, bad: noObject, plain: "it has no inputs"},
}
